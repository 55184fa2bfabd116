add_executable(bench_train_step bench_train_step.cc training_case.cc op_times.cc machine_peaks.cc)
target_link_libraries(bench_train_step PRIVATE babelring_train CLI11::CLI11)

add_executable(bench_plan bench_plan.cc)
target_link_libraries(bench_plan PRIVATE babelring_bench CLI11::CLI11)

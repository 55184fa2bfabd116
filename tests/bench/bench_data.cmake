add_executable(bench_data bench_data.cc)
target_link_libraries(bench_data PRIVATE babelring_bench CLI11::CLI11)

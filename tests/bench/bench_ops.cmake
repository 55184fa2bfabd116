add_executable(bench_ops bench_ops.cc bench_ops_cases.cc)
target_link_libraries(bench_ops PRIVATE babelring_bench babelring_reference CLI11::CLI11)

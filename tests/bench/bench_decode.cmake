add_executable(bench_decode bench_decode.cc)
target_link_libraries(bench_decode PRIVATE babelring_bench CLI11::CLI11)

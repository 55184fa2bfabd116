add_executable(bench_server bench_server.cc server_client.cc)
target_link_libraries(bench_server PRIVATE babelring_base CLI11::CLI11 Threads::Threads)

add_executable(bench_plan bench_plan.cc)
target_link_libraries(bench_plan PRIVATE babelring_bench CLI11::CLI11)

add_test(NAME bench_plan_small COMMAND bench_plan --pairs 1000 --tokens 500)
set_tests_properties(bench_plan_small PROPERTIES TIMEOUT 60 LABELS bench PASS_REGULAR_EXPRESSION "\"bench\":\"plan\"")

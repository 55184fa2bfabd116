#include "cli/runs/show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <sstream>

namespace babelring {
namespace {

using testing::HasSubstr;

std::string shown(const std::string& run) {
  std::ostringstream out;
  print_run(parse_json(run).value().as_object(), {.out = out});
  return out.str();
}

TEST(ShowRun, ShowsHealthAndAdvice) {
  const std::string text = shown(R"({"id":"r","state":"failed","health":{"level":"bad",
    "headline":"Failed at update 900: rank 2 on birch: CUDA out of memory","action":"Resume","parts":[
    {"topic":"state","level":"bad","text":"Failed at update 900: rank 2 on birch: CUDA out of memory","action":"Resume"},
    {"topic":"learning","level":"good","text":"Training loss 3.21","action":null}]}})");
  EXPECT_THAT(text, HasSubstr("health          Failed at update 900: rank 2 on birch: CUDA out of memory\n"));
  EXPECT_THAT(text, HasSubstr("what to do      Resume\n"));
  EXPECT_THAT(text, HasSubstr("  learning      Training loss 3.21\n"));
}

TEST(ShowRun, DrawsProgressForEachKindOfLimit) {
  const std::string text = shown(R"({"id":"r","state":"running","eta_seconds":271,
    "progress":{"fraction":0.62,"seconds_left":271,"end":"20 epochs","at_latest":true}})");
  EXPECT_THAT(text, HasSubstr("progress        [############........] 62 % of at most 20 epochs\n"));
  EXPECT_THAT(text, HasSubstr("left            4 min 31 s\n"));
}

}  // namespace
}  // namespace babelring

#include "cli/commands.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace babelring {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* parts = R"({"data_ms":1,"forward_ms":30,"backward_ms":60,"exposed_communication_ms":800,
  "waiting_for_slowest_ms":5,"optimizer_ms":8,"other_ms":1})";

std::string step(int hosts, const std::string& algorithm, bool offered, double step_ms) {
  return fmt::format(
      R"({{"setup":{{"hosts":{},"ranks_per_host":2,"link_gbit":1.8,"latency_us":50,"wire":"f32","bucket_mb":25,
      "accumulate":1,"algorithm":"{}","offered":{},"optimizer":"replicated","straggler":0}},"step_ms":{},"low_ms":880,"high_ms":920,"parts":{},
      "communication_ms":850,"host_megabytes":365,"target_tokens_per_second":35000,"efficiency":0.105,
      "seconds_left":90,"error":0.021}})",
      hosts, algorithm, offered, step_ms, parts);
}

std::string shown(const std::string& predicted) {
  const std::string answer = fmt::format(
      R"({{"measured":{{"step_ms":881.5,"parts":{},"target_tokens_per_second":35800,"seconds_left":88}},
      "baseline":{},"fits":true,"predicted":{},"warnings":["a warning"],"assumed":["a latency"]}})",
      parts, step(2, "ring", true, 900), predicted);
  return what_if_text(parse_json(answer).value().as_object());
}

TEST(WhatIfText, ShowsTheChangedRunBesideTheMeasuredOne) {
  const std::string text = shown(step(4, "tree", false, 910.25));
  EXPECT_THAT(text, HasSubstr("measured  as it is, predicted     changed\n"));
  EXPECT_THAT(text, HasSubstr("update, ms                     881.5                900.0       910.2\n"));
  EXPECT_THAT(text, HasSubstr("efficiency                                         10.5 %      10.5 %\n"));
  EXPECT_THAT(text,
              HasSubstr("as it is  hosts 2, ranks on each 2, ring, f32, buckets of 25 MB, link 1.8 Gbit/s, 50 us\n"));
  EXPECT_THAT(text, HasSubstr("changed   hosts 4, ranks on each 2, tree (not offered), f32"));
  EXPECT_THAT(text, HasSubstr("run as it is: +2.1 %. The changed update takes 880.0 to 920.0 ms.\n"));
  EXPECT_THAT(text, HasSubstr("warning: a warning\nassumed: a latency\n"));
}

TEST(WhatIfText, ShowsNoChangedRunWithoutAChangeOrAModel) {
  EXPECT_THAT(shown(step(2, "ring", true, 900)), Not(HasSubstr("changed")));
  const std::string text = shown("null");
  EXPECT_THAT(text, Not(HasSubstr("changed ")));
  EXPECT_THAT(text, HasSubstr("The model does not fit this run: it is wrong by +2.1 %"));
}

}  // namespace
}  // namespace babelring

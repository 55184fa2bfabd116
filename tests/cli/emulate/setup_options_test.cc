#include "cli/emulate/setup_options.h"

#include <gmock/gmock.h>

#include <cmath>

namespace babelring {
namespace {

TEST(LinkTextTest, ReadsRatesLatenciesAndProcessorTime) {
  const auto link = parse_link("25gbit,20us,300ms/GB");
  ASSERT_TRUE(link) << link.error();
  EXPECT_DOUBLE_EQ(link->gbit_per_s, 25);
  EXPECT_DOUBLE_EQ(link->latency_us, 20);
  EXPECT_DOUBLE_EQ(link->busy_ms_per_gb, 300);
  EXPECT_DOUBLE_EQ(link->rate_error, 0);
  EXPECT_DOUBLE_EQ(parse_link("250mbit,1.5ms")->latency_us, 1500);
  EXPECT_DOUBLE_EQ(parse_link("250mbit")->gbit_per_s, 0.25);
  EXPECT_DOUBLE_EQ(parse_link("1.5GB/s")->gbit_per_s, 12);
  EXPECT_TRUE(std::isinf(parse_link("inf")->gbit_per_s));
}

TEST(LinkTextTest, ARangeHasAMiddleAndAnError) {
  const auto link = parse_link("218-226MB/s");
  ASSERT_TRUE(link) << link.error();
  EXPECT_NEAR(link->gbit_per_s, 222 * 8e-3, 1e-12);
  EXPECT_NEAR(link->rate_error, 4.0 / 222, 1e-12);
}

TEST(LinkTextTest, RefusesOtherTexts) {
  for (const char* text : {"", "0gbit", "-1gbit", "25", "25gbit,", "25gbit,20", "25gbit,-2us", "5-3gbit",
                           "25gbit,1us,2", "x", "25gbit,1us,2ms/GB,4", "nangbit"}) {
    const auto link = parse_link(text);
    ASSERT_FALSE(link) << text;
    EXPECT_THAT(link.error(), testing::HasSubstr("expected a rate above 0 and a latency")) << text;
  }
}

}  // namespace

}  // namespace babelring

#include "server/api/query.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace babelring {
namespace {

TEST(Query, TimesAreParsedAsRfc3339) {
  EXPECT_EQ(api::parse_time("1970-01-01"), 0);
  EXPECT_EQ(api::parse_time("2026-11-21T08:15:30.1239Z"), 1'795'248'930'123);
  EXPECT_EQ(api::parse_time("2026-11-21T09:15:30.123+01:00"), 1'795'248'930'123);
  EXPECT_EQ(api::parse_time("2026-11-21t03:45:30-04:30"), 1'795'248'930'000);
  EXPECT_EQ(api::parse_time(format_rfc3339(1'795'248'930'123)), 1'795'248'930'123);
  for (const char* wrong : {"", "2026", "2026-1-1", "2026-13-01", "2026-00-10", "+026-01-01", "2026-11-21T",
                            "2026-11-21Z", "2026-11-21T08:15Z", "2026-11-21T08:15:30", "2026-11-21T08:15:30.Z",
                            "2026-11-21T08:15:30Zx", "2026-11-21T08:15:30+1:00", "2026-11--1"}) {
    EXPECT_FALSE(api::parse_time(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace babelring

#include "server/store/series/downsampling.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace babelring::store {
namespace {

TEST(PointGroups, HoldAFewPiecesAPointAndLoseNone) {
  for (const std::size_t count : {0u, 1u, 10u, 11u, 79u, 80u, 81u, 1000u, 12'345u}) {
    PointGroups groups(10);
    for (std::size_t i = 1; i <= count; ++i) {
      SeriesBucket bucket;
      add(bucket, static_cast<std::int64_t>(i), 0, static_cast<double>(i));
      groups.add(bucket);
    }
    EXPECT_EQ(groups.buckets(), count);
    const auto points = groups.finish();
    EXPECT_LE(points.size(), 10u);
    EXPECT_GE(points.size(), count > 80 ? 8u : std::min<std::size_t>(count, 5));
    std::int64_t from = 1;
    for (const SeriesPoint& point : points) {
      EXPECT_EQ(point.min, from);
      EXPECT_EQ(point.max, point.step);
      EXPECT_EQ(point.count, point.step - from + 1);
      EXPECT_DOUBLE_EQ(point.average, static_cast<double>(from + point.step) / 2);
      from = point.step + 1;
    }
    EXPECT_EQ(from, static_cast<std::int64_t>(count) + 1);
  }
}

}  // namespace
}  // namespace babelring::store

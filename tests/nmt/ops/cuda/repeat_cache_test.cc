#include "nmt/ops/cuda/repeat_cache.h"

#include <gtest/gtest.h>

#include <memory>

namespace babelring::cuda {
namespace {

using Cache = RepeatCache<std::unique_ptr<int>>;  // move-only, as recordings are

TEST(RepeatCache, RecordsWhatIsAskedForTwice) {
  Cache cache;
  const Cache::Key key = {1, 2, 3};
  EXPECT_EQ(cache.find(key), nullptr);
  EXPECT_FALSE(cache.seen_before(key));
  EXPECT_TRUE(cache.seen_before(key));
  cache.keep(key, std::make_unique<int>(7));
  ASSERT_NE(cache.find(key), nullptr);
  EXPECT_EQ(**cache.find(key), 7);
}

TEST(RepeatCache, TellsKeysApartByEveryWord) {
  Cache cache;
  cache.keep({1, 2, 3}, std::make_unique<int>(7));
  for (const Cache::Key& other : {Cache::Key{1, 2, 4}, {1, 2}, {1, 2, 3, 0}, {0, 2, 3}, {}}) {
    EXPECT_EQ(cache.find(other), nullptr);
    EXPECT_FALSE(cache.seen_before(other));
  }
}

TEST(RepeatCache, DropsTheRecordingNotUsedForLongest) {
  Cache cache;
  for (int i = 0; i < static_cast<int>(Cache::max_recordings); ++i) cache.keep({i}, std::make_unique<int>(i));
  EXPECT_NE(cache.find({0}), nullptr);  // used: now {1} is the oldest
  cache.keep({100}, std::make_unique<int>(100));
  EXPECT_EQ(cache.find({1}), nullptr);
  EXPECT_EQ(**cache.find({0}), 0);
  EXPECT_EQ(**cache.find({100}), 100);
}

/// Text has ever new shapes: none of them is worth a recording, and they do not pile up.
TEST(RepeatCache, ForgetsWhatWasAskedForOnceLongAgo) {
  Cache cache;
  EXPECT_FALSE(cache.seen_before({-1}));
  for (int i = 0; i < static_cast<int>(Cache::max_seen); ++i) EXPECT_FALSE(cache.seen_before({i}));
  EXPECT_FALSE(cache.seen_before({-1}));
  EXPECT_TRUE(cache.seen_before({static_cast<int>(Cache::max_seen) - 1}));
}

TEST(RepeatCache, EndsWithTheMemoryItPointsInto) {
  Cache cache;
  cache.enter(5);
  cache.seen_before({1});
  cache.keep({2}, std::make_unique<int>(2));
  cache.enter(5);
  EXPECT_NE(cache.find({2}), nullptr);
  cache.enter(6);  // something was allocated: the same addresses may be other tensors now
  EXPECT_EQ(cache.find({2}), nullptr);
  EXPECT_FALSE(cache.seen_before({1}));
}

}  // namespace

}  // namespace babelring::cuda

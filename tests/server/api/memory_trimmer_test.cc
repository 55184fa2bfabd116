#include "server/api/memory_trimmer.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/soon.h"

namespace babelring::api {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

TEST(MemoryTrimmer, IsDueWhenMuchWasFreedAndIsStillResident) {
  TrimRule rule(16 * mib);
  EXPECT_FALSE(rule.is_due({18 * mib, 4 * mib}));     // idle
  EXPECT_FALSE(rule.is_due({518 * mib, 500 * mib}));  // a burst uses it
  EXPECT_TRUE(rule.is_due({518 * mib, 10 * mib}));    // and is over
  rule.trimmed({60 * mib, 10 * mib});
  EXPECT_FALSE(rule.is_due({60 * mib, 10 * mib}));  // the rest cannot be given back
  EXPECT_FALSE(rule.is_due({66 * mib, 10 * mib}));
  EXPECT_TRUE(rule.is_due({77 * mib, 10 * mib}));
  EXPECT_FALSE(rule.is_due({20 * mib, 10 * mib}));
  EXPECT_TRUE(rule.is_due({40 * mib, 10 * mib}));  // counted from the least since then
}

TEST(MemoryTrimmer, GivesBackWhatABurstLeft) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers bring an allocator that cannot be trimmed";
#endif
  int released = 0;
  {
    const MemoryTrimmer trimmer([&] { ++released; }, std::chrono::hours(1), 16 * mib);
  }
  EXPECT_EQ(released, 1);
  const MemoryTrimmer trimmer([] {}, std::chrono::milliseconds(10), 16 * mib);
  std::vector<std::unique_ptr<char[]>> freed, kept;  // some between the others: the arena has no free top
  for (int i = 0; i < 200'000; ++i) {
    freed.push_back(std::make_unique<char[]>(1024));
    if (i % 2048 == 0) kept.push_back(std::make_unique<char[]>(1024));
  }
  const std::size_t peak = MemoryUse::now().resident;
  freed.clear();
  EXPECT_TRUE(soon([&] { return MemoryUse::now().resident + 100 * mib < peak; }));
}

}  // namespace
}  // namespace babelring::api

#include "nmt/comm/shared/host_memory.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/nmt/comm/thread_communicator.h"

namespace babelring {
namespace {

using testing::Each;
using testing::ElementsAre;

/// The value in the memory that each rank shares after every rank has added 1; 0: it shares none.
std::vector<int> ranks_that_share(int ranks, int hosts, const std::function<std::string(int)>& key) {
  ThreadGroup group(ranks, false, hosts);
  std::vector<int> found(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      const auto memory = share_on_host(*communicator, 10'000, key(rank), [](char* data) { data[9'999] = 100; });
      if (memory) std::atomic_ref(memory->data()[9'999]) += 1;
      communicator->barrier();
      if (memory) found[static_cast<std::size_t>(rank)] = memory->data()[9'999] - 100;
      communicator->barrier();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found;
}

TEST(ShareOnHost, GivesTheRanksOfAHostTheSameMemory) {
  const auto equal = [](int) { return "plan"; };
  EXPECT_THAT(ranks_that_share(4, 1, equal), Each(4));
  EXPECT_THAT(ranks_that_share(6, 2, equal), Each(3));
}

TEST(ShareOnHost, GivesNothingToARankWithoutOthers) {
  EXPECT_THAT(ranks_that_share(1, 1, [](int) { return "plan"; }), ElementsAre(0));
  EXPECT_THAT(ranks_that_share(2, 2, [](int) { return "plan"; }), ElementsAre(0, 0));
}

TEST(ShareOnHost, SeparatesKeys) {
  EXPECT_THAT(ranks_that_share(4, 1, [](int rank) { return rank == 2 ? "other" : "plan"; }), ElementsAre(3, 3, 0, 3));
}

}  // namespace
}  // namespace babelring

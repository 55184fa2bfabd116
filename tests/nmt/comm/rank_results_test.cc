#include "nmt/comm/rank_results.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <new>
#include <thread>

#include "base/records/run_marks.h"
#include "tests/nmt/comm/thread_communicator.h"

namespace babelring {
namespace {

/// Runs `body` on two ranks.
void on_two_ranks(const std::function<void(Communicator&)>& body) {
  ThreadGroup group(2);
  const auto run = [&](int rank) {
    const auto communicator = group.rank(rank);
    body(*communicator);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

TEST(RankResults, EveryRankGetsValuesAndErrorsOfAllRanks) {
  on_two_ranks([](Communicator& communicator) {
    const Result<json::value> own =
        communicator.rank() == 0 ? Result<json::value>(json::value{{"pid", 17}}) : Error{"no \"GPU\"\n"};
    const auto all = gather_results(communicator, own);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0]->at("pid"), 17);
    EXPECT_EQ(all[1].error(), "no \"GPU\"\\x0a") << "one line";
    EXPECT_EQ(first_error(communicator, all).error(), "rank 1 on here: no \"GPU\"\\x0a");
    EXPECT_TRUE(first_error(communicator, {all[0], all[0]}));
  });
}

TEST(RankResults, WorkOfRank0GivesEveryRankItsValueOrFailure) {
  on_two_ranks([](Communicator& communicator) {
    const int rank = communicator.rank();
    EXPECT_EQ(value_of_rank_0(communicator, [rank]() -> json::value { return rank + 5; }), 5);
    int calls = 0;
    run_on_rank_0(communicator, [&] { ++calls; });
    EXPECT_EQ(calls, rank == 0 ? 1 : 0);
    EXPECT_THAT([&] { run_on_rank_0(communicator, [] { throw UsageFailure("--config: nope: no such file"); }); },
                testing::ThrowsMessage<UsageFailure>("--config: nope: no such file"));
  });
}

TEST(RankResults, AFailureOfRank0IsThatOfAllRanks) {
  on_two_ranks([](Communicator& communicator) {
    EXPECT_THAT([&] { run_on_rank_0(communicator, [] { fail("checkpoint: damaged"); }); },
                testing::ThrowsMessage<AgreedFailure>("rank 0 on here: checkpoint: damaged"));
    EXPECT_THAT([&] { run_on_rank_0(communicator, [] { throw std::bad_alloc(); }); }, testing::Throws<AgreedFailure>());
  });
}

TEST(RankResults, WorkOfEveryRankFailsOnAllWithTheFirstMessage) {
  on_two_ranks([](Communicator& communicator) {
    const int rank = communicator.rank();
    EXPECT_EQ(on_every_rank(communicator, [rank] { return rank + 5; }), rank + 5);
    const auto failing = [&](const std::function<void()>& work) {
      run_on_every_rank(communicator, [&] {
        if (rank == 1) work();
      });
    };
    EXPECT_THAT([&] { failing([] { fail("/data: no manifest.json there"); }); },
                testing::ThrowsMessage<UsageFailure>("rank 1 on here: /data: no manifest.json there"));
    EXPECT_THAT([&] { failing([] { std::filesystem::create_directory("/proc/none"); }); },
                testing::ThrowsMessage<UsageFailure>(testing::HasSubstr("rank 1 on here: ")));
    EXPECT_THAT([&] { failing([] { throw Fenced("attempt 3 is over"); }); },
                testing::ThrowsMessage<AgreedFailure>("rank 1 on here: attempt 3 is over"));
    EXPECT_THAT([&] { failing([] { throw std::bad_alloc(); }); }, testing::Throws<AgreedFailure>());
  });
}

}  // namespace
}  // namespace babelring

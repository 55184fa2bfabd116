#include "nmt/comm/nccl/communicator.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <tuple>

#include "nmt/comm/collective.h"
#include "nmt/core/random.h"
#include "nmt/parallel/buckets.h"
#include "tests/nmt/comm/fake_device_stream.h"
#include "tests/nmt/comm/fake_nccl.h"
#include "tests/nmt/comm/thread_communicator.h"

namespace babelring {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int nccl_ranks = 3;

/// Element i of rank `rank`.
float nccl_value(int rank, std::int64_t i) {
  return static_cast<float>(
      Random(derive_seed(7, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(i))).uniform() * 2 - 1);
}

class NcclCommunicatorTest : public testing::Test {
 protected:
  NcclCommunicatorTest() { FakeNccl::reset(); }
  ~NcclCommunicatorTest() override {
    ::unsetenv("NCCL_ALGO");
    FakeNccl::reset();
  }

  /// The tools of a rank's body.
  struct Rank {
    int rank;
    Communicator& control;
    Buffer trial = allocate_host(4000);
    Result<NcclLibrary> library = FakeNccl::library();
    NcclOptions options{};
    Result<std::unique_ptr<Communicator>> open() {
      options.trial = trial.view({1000}, DType::f32);
      std::fill_n(options.trial.as<float>(), 1000, 1.0f);
      return open_nccl(library, control, std::make_unique<FakeDeviceStream>(), options);
    }
  };

  static void on_ranks(const std::function<void(Rank&)>& body, int ranks = nccl_ranks) {
    ThreadGroup group(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto control = group.rank(rank);
        Rank own{rank, *control};
        body(own);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// The error of open_nccl(), which must be the same on all ranks.
  static std::string reason(const std::function<void(Rank&)>& change) {
    std::vector<std::string> reasons(nccl_ranks);
    on_ranks([&](Rank& own) {
      change(own);
      const Result<std::unique_ptr<Communicator>> opened = own.open();
      ASSERT_FALSE(opened.ok());
      reasons[static_cast<std::size_t>(own.rank)] = opened.error();
    });
    EXPECT_THAT(reasons, Each(reasons[0]));
    return reasons[0];
  }
};

/// In buckets of up to 600 elements, but for the large one.
constexpr std::int64_t nccl_parameters[] = {64, 512, 64, 20000, 64};
constexpr std::int64_t nccl_elements = 64 + 512 + 64 + 20000 + 64;

struct NcclUpdate {
  std::vector<float> sum;
  std::string description;
  CommTotals totals;
};

/// One update's gradients, summed as training does it.
NcclUpdate nccl_update(Communicator& communicator, Communicator& control) {
  const Buffer memory = communicator.allocate(nccl_elements * sizeof(float));
  const Tensor gradient = memory.view({nccl_elements}, DType::f32);
  std::vector<ParameterRange> ranges;
  for (std::int64_t offset = 0; const std::int64_t count : nccl_parameters) {
    ranges.push_back({offset, count});
    offset += count;
  }
  GradientBuckets buckets(communicator, gradient, ranges, 2400);
  buckets.begin();
  for (std::size_t parameter = ranges.size(); parameter-- > 0;) {
    const auto [offset, count] = ranges[parameter];
    for (std::int64_t i = offset; i < offset + count; ++i) gradient.as<float>()[i] = nccl_value(communicator.rank(), i);
    buckets.mark_ready(parameter);
  }
  buckets.finish();
  control.barrier();
  return {
      {gradient.as<float>(), gradient.as<float>() + nccl_elements}, communicator.description(), communicator.totals()};
}

/// The largest error against the sum in double, beyond `allowed` of the sum of magnitudes.
double nccl_excess(const std::vector<float>& sum, double allowed) {
  double worst = -1;
  for (std::int64_t i = 0; i < nccl_elements; ++i) {
    double expected = 0, magnitude = 0;
    for (int rank = 0; rank < nccl_ranks; ++rank) {
      expected += static_cast<double>(nccl_value(rank, i));
      magnitude += std::abs(static_cast<double>(nccl_value(rank, i)));
    }
    const double error = std::abs(expected - static_cast<double>(sum[static_cast<std::size_t>(i)]));
    worst = std::max(worst, error - allowed * magnitude);
  }
  return worst;
}

TEST_F(NcclCommunicatorTest, SumsBucketsInPlaceInTheirOrder) {
  FakeNccl::plan().connect_polls = 3;
  std::vector<NcclUpdate> updates(nccl_ranks);
  on_ranks([&](Rank& own) {
    const auto opened = own.open();
    ASSERT_TRUE(opened) << opened.error();
    Communicator& nccl = **opened;
    EXPECT_TRUE(nccl.device_memory());
    EXPECT_EQ(own.options.trial.as<float>()[999], nccl_ranks);
    updates[static_cast<std::size_t>(own.rank)] = nccl_update(nccl, own.control);
  });
  EXPECT_LT(nccl_excess(updates[0].sum, 1e-6), 0);
  for (const NcclUpdate& update : updates) {
    EXPECT_EQ(std::memcmp(update.sum.data(), updates[0].sum.data(), nccl_elements * sizeof(float)), 0);
    EXPECT_NEAR(static_cast<double>(update.totals.bytes_sent), nccl_elements * 4 * 2 * 2 / 3.0, 5);
    EXPECT_GT(update.totals.busy_ms, 0);
  }
  EXPECT_THAT(updates[0].description, HasSubstr("NCCL 2.28.9 over 3 ranks, f32 on the wire"));
  for (int rank = 0; rank < nccl_ranks; ++rank) {
    std::vector<std::size_t> counts;
    for (const FakeNccl::Call& call : FakeNccl::calls(rank)) counts.push_back(call.count);
    EXPECT_THAT(counts, ElementsAre(1000, 64, 20000, 64 + 512, 64)) << "trial, then from the end";
  }
  EXPECT_EQ(FakeNccl::destroyed(), nccl_ranks);
  EXPECT_EQ(FakeNccl::aborted(), 0);
}

TEST_F(NcclCommunicatorTest, SendsHalfAsMuchInBf16) {
  std::vector<NcclUpdate> updates(nccl_ranks);
  on_ranks([&](Rank& own) {
    own.options.wire = GradientWire::bf16;
    const auto opened = own.open();
    ASSERT_TRUE(opened) << opened.error();
    Communicator& nccl = **opened;
    updates[static_cast<std::size_t>(own.rank)] = nccl_update(nccl, own.control);
  });
  EXPECT_LT(nccl_excess(updates[0].sum, 1.01 * nccl_ranks / 256), 0);
  EXPECT_GT(nccl_excess(updates[0].sum, 1e-6), 0) << "nothing was rounded";
  for (const NcclUpdate& update : updates) {
    EXPECT_EQ(std::memcmp(update.sum.data(), updates[0].sum.data(), nccl_elements * sizeof(float)), 0);
    EXPECT_NEAR(static_cast<double>(update.totals.bytes_sent), nccl_elements * 2 * 2 * 2 / 3.0, 5);
  }
  for (const FakeNccl::Call& call : FakeNccl::calls(1)) EXPECT_EQ(call.type, nccl_bfloat16);
}

/// Two rounds and a rest, which has no stripe for the last rank.
TEST_F(NcclCommunicatorTest, ScattersSumsAndGathersParts) {
  constexpr std::int64_t stripe = 50, round = nccl_ranks * stripe, elements = 2 * round + 70;
  for (const GradientWire wire : {GradientWire::f32, GradientWire::bf16}) {
    FakeNccl::reset();
    on_ranks([&](Rank& own) {
      own.options.wire = wire;
      const auto opened = own.open();
      ASSERT_TRUE(opened) << opened.error();
      Communicator& nccl = **opened;
      HostExchange& exchange = *nccl.host_exchange();
      EXPECT_EQ(exchange.host_count(), nccl_ranks);
      EXPECT_EQ(exchange.stripe_of(exchange.position()), own.rank);
      const Buffer memory = nccl.allocate(elements * sizeof(float));
      const Tensor values = memory.view({elements}, DType::f32);
      for (std::int64_t i = 0; i < elements; ++i) values.as<float>()[i] = nccl_value(own.rank, i);
      PartsByPosition parts(nccl_ranks);
      for (std::int64_t begin = 0; begin < elements; begin += round) {
        exchange.reduce_scatter_start(values.row_slice(begin, std::min(round, elements - begin)), stripe);
        for (std::int64_t rank = 0; rank < nccl_ranks; ++rank) {
          const std::int64_t first = begin + rank * stripe, last = std::min(elements, first + stripe);
          if (first < last) parts[static_cast<std::size_t>(rank)].push_back({first, last});
        }
      }
      exchange.finish(exchange.all_gather_start(values, parts));
      const double rounding = wire == GradientWire::bf16 ? 1.01 * nccl_ranks / 256 : 1e-6;
      for (std::int64_t i = 0; i < elements; ++i) {
        double sum = 0, magnitude = 0;
        for (int rank = 0; rank < nccl_ranks; ++rank) {
          sum += static_cast<double>(nccl_value(rank, i));
          magnitude += std::abs(static_cast<double>(nccl_value(rank, i)));
        }
        ASSERT_NEAR(static_cast<double>(values.as<float>()[i]), sum, rounding * magnitude) << i;
      }
      const double sent = static_cast<double>(wire_bytes(wire, 2 * round) + 2 * wire_bytes(wire, 70)) + elements * 4.0;
      EXPECT_NEAR(static_cast<double>(nccl.totals().bytes_sent), sent * 2 / 3, 5);
      EXPECT_THROW(exchange.reduce_scatter_start(values, stripe), Failure);
      EXPECT_THROW(exchange.all_gather_start(values, PartsByPosition(nccl_ranks - 1)), Failure);
      own.control.barrier();
    });
    std::vector<std::string> functions;
    for (const FakeNccl::Call& call : FakeNccl::calls(1)) functions.push_back(call.function);
    EXPECT_THAT(functions, ElementsAre("all-reduce", "reduce-scatter", "reduce-scatter", "all-reduce", "all-gather",
                                       "all-gather", "broadcast", "broadcast"));
  }
}

/// As training calls it on every rank: the buckets of an update, then the two halves of a sharded one.
std::vector<float> bucketed_and_sharded(Communicator& nccl, Communicator& control) {
  std::vector<float> sums = nccl_update(nccl, control).sum;
  constexpr std::int64_t stripe = 40;
  const std::int64_t ranks = control.size(), elements = ranks * stripe;
  const Buffer memory = nccl.allocate(static_cast<std::size_t>(elements) * sizeof(float));
  const Tensor values = memory.view({elements}, DType::f32);
  for (std::int64_t i = 0; i < elements; ++i) values.as<float>()[i] = nccl_value(control.rank(), i);
  PartsByPosition parts(static_cast<std::size_t>(ranks));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    parts[static_cast<std::size_t>(rank)].push_back({rank * stripe, (rank + 1) * stripe});
  }
  HostExchange& exchange = *nccl.host_exchange();
  exchange.reduce_scatter_start(values, stripe);
  exchange.finish(exchange.all_gather_start(values, parts));
  sums.insert(sums.end(), values.as<float>(), values.as<float>() + elements);
  control.barrier();
  return sums;
}

std::vector<std::tuple<std::string, std::size_t, int>> queued_by(int rank) {
  std::vector<std::tuple<std::string, std::size_t, int>> found;
  for (const FakeNccl::Call& call : FakeNccl::calls(rank)) found.emplace_back(call.function, call.count, call.type);
  return found;
}

TEST_F(NcclCommunicatorTest, UpToSixteenLateRanksQueueTheSameCallsAndHaveTheSameBits) {
  for (const int ranks : {2, 3, 5, 8, 16}) {
    FakeNccl::reset();
    FakeNccl::plan().max_delay_us = 2000;
    std::vector<std::vector<float>> sums(static_cast<std::size_t>(ranks));
    on_ranks(
        [&](Rank& own) {
          const auto opened = own.open();
          ASSERT_TRUE(opened) << opened.error();
          for (int update = 0; update < 2; ++update) {
            sums[static_cast<std::size_t>(own.rank)] = bucketed_and_sharded(**opened, own.control);
          }
        },
        ranks);
    double worst = 0;
    for (std::int64_t i = 0; i < nccl_elements; ++i) {
      double expected = 0;
      for (int rank = 0; rank < ranks; ++rank) expected += static_cast<double>(nccl_value(rank, i));
      worst = std::max(worst, std::abs(expected - static_cast<double>(sums[0][static_cast<std::size_t>(i)])));
    }
    EXPECT_LT(worst, 1e-5) << ranks << " ranks";
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(sums[static_cast<std::size_t>(rank)], sums[0]) << "rank " << rank << " of " << ranks;
      EXPECT_EQ(queued_by(rank), queued_by(0)) << "rank " << rank << " of " << ranks;
    }
    EXPECT_EQ(FakeNccl::destroyed(), ranks);
  }
}

TEST_F(NcclCommunicatorTest, RefusesWhatIsNotF32) {
  on_ranks([&](Rank& own) {
    const auto opened = own.open();
    ASSERT_TRUE(opened) << opened.error();
    Communicator& nccl = **opened;
    EXPECT_THROW(nccl.all_reduce_start(own.trial.view({1000}, DType::bf16)), Failure);
    own.control.barrier();
  });
}

TEST_F(NcclCommunicatorTest, AllRanksGiveOneReasonToDoWithout) {
  EXPECT_EQ(reason([](Rank& own) {
              if (own.rank == 1) own.library = Error{"libnccl.so.2: cannot open shared object file"};
            }),
            "rank 1 on here: libnccl.so.2: cannot open shared object file");
  EXPECT_EQ(reason([](Rank& own) {
              if (own.rank == 2) own.library = FakeNccl::library(22703);
            }),
            "rank 0 on here has NCCL 2.28.9, rank 2 on here NCCL 2.27.3");
  EXPECT_EQ(FakeNccl::aborted(), 0);
}

TEST_F(NcclCommunicatorTest, FailureToJoinIsEverybodysReason) {
  FakeNccl::plan() = {.rank = 2, .join_result = 1};
  EXPECT_EQ(reason([](Rank&) {}), "rank 2 on here: ncclCommInitRankConfig: unhandled cuda error");
  EXPECT_EQ(FakeNccl::aborted(), nccl_ranks - 1);
  FakeNccl::reset();
  FakeNccl::plan() = {.rank = 1, .join_error = 2};
  EXPECT_EQ(reason([](Rank&) {}), "rank 1 on here: NCCL: unhandled system error");
  EXPECT_EQ(FakeNccl::aborted(), nccl_ranks);
}

TEST_F(NcclCommunicatorTest, RankThatDoesNotJoinHasADeadline) {
  FakeNccl::plan() = {.rank = 1, .never_joins = true};
  const std::string why = reason([](Rank& own) {
    if (own.rank == 1) own.options.deadline = std::chrono::milliseconds(200);  // the others have met it by then
  });
  EXPECT_EQ(why, "rank 1 on here: NCCL has not met the other ranks within 0.2 s");
  EXPECT_EQ(FakeNccl::aborted(), nccl_ranks);
}

TEST_F(NcclCommunicatorTest, TrialThatFailsIsAReasonToo) {
  FakeNccl::plan() = {.rank = 0, .fails_at = 0};
  EXPECT_EQ(reason([](Rank&) {}), "rank 0 on here: NCCL: remote process exited or there was a network error");
  EXPECT_EQ(FakeNccl::aborted(), nccl_ranks);
}

TEST_F(NcclCommunicatorTest, ErrorOfTheTransportFailsTheUpdateAndStopsTheDevice) {
  FakeNccl::plan() = {.fails_at = 2};
  on_ranks([&](Rank& own) {
    const auto opened = own.open();
    ASSERT_TRUE(opened) << opened.error();
    Communicator& nccl = **opened;
    const Buffer memory = nccl.allocate(300'000);
    const auto update = [&] {  // a late start throws if the second all-reduce has already failed
      for (int number = 1; number < 4; ++number) nccl.all_reduce_start(memory.view({75'000}, DType::f32));
      own.control.barrier();
    };
    EXPECT_THAT(update,
                testing::Throws<CommError>(testing::Property(
                    &CommError::what, HasSubstr("all-reduce of 0.3 MB by NCCL failed: NCCL: remote process exited"))));
  });
  EXPECT_EQ(FakeNccl::aborted(), nccl_ranks);
  EXPECT_EQ(FakeNccl::destroyed(), 0);
}

TEST_F(NcclCommunicatorTest, RingIsAskedForByTheEnvironment) {
  const auto open_ring = [](std::string& said) {
    on_ranks(
        [&said](Rank& own) {
          own.options.ring = true;
          const auto opened = own.open();
          said = opened ? (*opened)->description() : opened.error();
        },
        1);
  };
  std::string said;
  open_ring(said);
  EXPECT_THAT(said, HasSubstr("NCCL_ALGO is Ring"));
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Ring");
  ::setenv("NCCL_ALGO", "Tree", 1);
  open_ring(said);
  EXPECT_EQ(said, "rank 0 on here: NCCL_ALGO is Tree, all_reduce nccl_ring needs Ring");
}

TEST_F(NcclCommunicatorTest, NeedsAControlThatTracksItsAllReduces) {
  const auto single = make_single_communicator();
  Rank own{0, *single};
  EXPECT_THAT(
      [&] { static_cast<void>(own.open()); },
      testing::Throws<Failure>(testing::Property(
          &Failure::what, std::string("NCCL: its all-reduces cannot be tracked by: one rank, no communication"))));
}

}  // namespace
}  // namespace babelring

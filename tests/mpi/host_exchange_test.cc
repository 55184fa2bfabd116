#include "nmt/comm/collective.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "tests/mpi/collectives_fixture.h"

namespace babelring {
namespace {

using testing::CollectivesTest;
using testing::Setting;
using testing::values_of;

/// On several hosts with equal numbers of ranks and a fitting algorithm; elsewhere there is no exchange.
class HostExchangeTest : public CollectivesTest {
 protected:
  void SetUp() override {
    CollectivesTest::SetUp();
    if (communicator_ == nullptr) return;
    exchange_ = communicator_->host_exchange();
    std::vector<double> ranks_with{exchange_ != nullptr ? 1.0 : 0.0};
    communicator_->sum(ranks_with);
    EXPECT_EQ(ranks_with[0], exchange_ != nullptr ? communicator_->size() : 0);
    const bool fits = on_two_levels() || communicator_->local_size() == 1;
    const bool equal = testing::equal_hosts();  // collective
    EXPECT_EQ(exchange_ != nullptr, equal && fits && communicator_->local_size() < communicator_->size());
    if (exchange_ == nullptr) GTEST_SKIP() << "no exchange between hosts";
  }

  /// The number of this rank's stripe.
  std::int64_t own_stripe() const {
    return communicator_->local_rank() * exchange_->host_count() + exchange_->position();
  }
  /// The elements of the stripe, without those behind `count`.
  std::vector<float> stripe_of(const float* values, std::int64_t count, std::int64_t stripe) const {
    const std::int64_t begin = std::min(count, own_stripe() * stripe), end = std::min(count, begin + stripe);
    return {values + begin, values + end};
  }

  HostExchange* exchange_ = nullptr;
};

TEST_P(HostExchangeTest, EveryRankHasAnotherStripe) {
  const auto hosts = communicator_->size() / communicator_->local_size();
  EXPECT_EQ(exchange_->host_count(), hosts);
  std::vector<double> ranks(static_cast<std::size_t>(communicator_->size()));
  ranks.at(static_cast<std::size_t>(own_stripe())) = 1;
  communicator_->sum(ranks);
  EXPECT_THAT(ranks, ::testing::Each(1.0));
}

TEST_P(HostExchangeTest, ScattersTheBitsOfAllReducesAmongOtherCollectives) {
  const std::int64_t ranks = communicator_->size();
  constexpr std::int64_t stripe = 20'011;
  const std::vector<std::int64_t> counts = {ranks * stripe, 0, 1, stripe, ranks * stripe - 7, ranks * stripe / 2 + 3};
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const Buffer memory = communicator_->allocate(static_cast<std::size_t>(total + 1000) * sizeof(float));
  auto* const all = static_cast<float*>(memory.data());
  for (int update = 0; update < 2; ++update) {
    float* at = all;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto values = values_of(communicator_->rank(), counts[i], i);
      std::copy(values.begin(), values.end(), at);
      exchange_->reduce_scatter_start(Tensor(at, {counts[i]}, DType::f32), stripe);
      at += counts[i];
    }
    std::fill_n(at, 1000, 1.0f);
    communicator_->all_reduce_start(Tensor(at, {1000}, DType::f32));
    communicator_->all_reduce_finish();
    EXPECT_EQ(at[999], static_cast<float>(ranks));
    communicator_->forget_errors();
    at = all;
    for (std::size_t i = 0; i < counts.size(); at += counts[i++]) {
      const std::vector<float> found = stripe_of(at, counts[i], stripe);
      const std::vector<float> whole = reduced(values_of(communicator_->rank(), counts[i], i));
      const std::vector<float> expected = stripe_of(whole.data(), counts[i], stripe);
      if (communicator_->same_bits_in_any_bucket()) {
        EXPECT_EQ(found, expected);
        continue;
      }
      const double allowed = 1e-6 * static_cast<double>(ranks) + 2 * wire_error(static_cast<double>(ranks), 1);
      for (std::size_t e = 0; e < found.size(); ++e) ASSERT_NEAR(found[e], expected[e], allowed);
    }
    communicator_->forget_errors();
  }
}

TEST_P(HostExchangeTest, GathersPartsOfAnySizeOnEveryRankOfAHost) {
  const auto hosts = static_cast<std::int64_t>(exchange_->host_count());
  const int local_size = communicator_->local_size();
  constexpr std::int64_t piece = 5'003;  // in each round one for each rank
  constexpr int rounds = 9;
  const std::int64_t count = piece * communicator_->size() * rounds;
  const Buffer memory =
      exchange_->allocate_for_gathers(static_cast<std::size_t>(count) * sizeof(BFloat16),
                                      {{communicator_->local_rank(), communicator_->local_rank() + 1}});
  auto* const words = static_cast<std::uint16_t*>(memory.data());
  // Odd places leave the first element of a piece out, and the last place has nothing in even rounds.
  const auto parts_of = [&](int local_rank) {
    PartsByPosition parts(static_cast<std::size_t>(hosts));
    for (std::int64_t place = 0; place < hosts; ++place) {
      for (int round = 0; round < rounds; ++round) {
        const std::int64_t begin = piece * ((round * local_size + local_rank) * hosts + place);
        if (place + 1 == hosts && round % 2 == 0) continue;
        parts[static_cast<std::size_t>(place)].push_back({begin + place % 2, begin + piece});
      }
    }
    return parts;
  };
  const auto value = [](std::int64_t element, int update) {
    return static_cast<std::uint16_t>(element * 7919 + update * 31 + 1);
  };
  const PartsByPosition parts = parts_of(communicator_->local_rank());
  for (int update = 0; update < 2; ++update) {
    for (const auto& [begin, end] : parts[static_cast<std::size_t>(exchange_->position())]) {
      for (std::int64_t i = begin; i < end; ++i) words[i] = value(i, update);
    }
    exchange_->all_gather_start(memory.view({count}, DType::bf16), parts);
    communicator_->all_reduce_finish();
    std::vector<std::uint16_t> expected(static_cast<std::size_t>(count));
    for (int local_rank = 0; local_rank < local_size; ++local_rank) {
      for (const auto& ranges : parts_of(local_rank)) {
        for (const auto& [begin, end] : ranges) {
          for (std::int64_t i = begin; i < end; ++i) expected[static_cast<std::size_t>(i)] = value(i, update);
        }
      }
    }
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), words)) << "update " << update;
    communicator_->barrier();
  }
}

TEST_P(HostExchangeTest, AFinishedAllGatherIsCompleteOnTheWholeHostWhileOthersTravel) {
  const std::int64_t hosts = exchange_->host_count(), ranks = communicator_->size();
  constexpr std::int64_t piece = 4'099, gathers = 12;
  const std::int64_t count = piece * ranks;  // of a gather
  const Buffer memory = exchange_->allocate_for_gathers(static_cast<std::size_t>(count * gathers) * sizeof(float), {});
  auto* const values = static_cast<float*>(memory.data());
  const auto value = [](int update, std::int64_t element) {
    return static_cast<float>(update * 1'000'000 + element % 999'983);
  };
  for (int update = 1; update <= 3; ++update) {
    std::this_thread::sleep_for(communicator_->local_rank() * std::chrono::milliseconds(3));
    std::vector<std::int64_t> numbers;
    for (std::int64_t gather = 0; gather < gathers; ++gather) {
      PartsByPosition parts;
      for (std::int64_t place = 0; place < hosts; ++place) {
        const std::int64_t begin = (communicator_->local_rank() * hosts + place) * piece;
        parts.push_back({{begin, begin + piece}});
      }
      const auto& [begin, end] = parts[static_cast<std::size_t>(exchange_->position())][0];
      for (std::int64_t i = begin; i < end; ++i) values[gather * count + i] = value(update, gather * count + i);
      const Tensor tensor(values + gather * count, {count}, DType::f32);
      numbers.push_back(exchange_->all_gather_start(tensor, parts));
    }
    for (std::int64_t gather = 0; gather < gathers; gather += 1 + gather % 3) {
      exchange_->finish(numbers[static_cast<std::size_t>(gather)]);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < (gather + 1) * count; ++i) wrong += values[i] != value(update, i) ? 1 : 0;
      ASSERT_EQ(wrong, 0) << "update " << update << ", gather " << gather;
    }
    communicator_->barrier();  // finishes the others, and keeps the next update off what others still read
  }
}

TEST_P(HostExchangeTest, CountsTheBytesThatItSends) {
  const std::int64_t hosts = exchange_->host_count(), stripe = 3000, count = stripe * communicator_->size();
  const Buffer sums = communicator_->allocate(static_cast<std::size_t>(count) * sizeof(float));
  const Buffer weights = exchange_->allocate_for_gathers(static_cast<std::size_t>(count) * sizeof(BFloat16), {});
  const std::int64_t before = communicator_->totals().bytes_sent;
  exchange_->reduce_scatter_start(sums.view({count}, DType::f32), stripe);
  communicator_->all_reduce_finish();
  const std::int64_t scattered = communicator_->totals().bytes_sent - before;
  EXPECT_EQ(scattered, wire_bytes(GetParam().wire, (hosts - 1) * stripe));
  PartsByPosition parts;
  for (std::int64_t place = 0; place < hosts; ++place) {
    const std::int64_t begin = (communicator_->local_rank() * hosts + place) * stripe;
    parts.push_back({{begin, begin + stripe}});
  }
  exchange_->all_gather_start(weights.view({count}, DType::bf16), parts);
  communicator_->all_reduce_finish();
  EXPECT_EQ(communicator_->totals().bytes_sent - before - scattered, (hosts - 1) * stripe * 2);
}

TEST_P(HostExchangeTest, RefusesOtherMemoryAndTooManyElements) {
  const Buffer sums = communicator_->allocate(1000 * sizeof(float));
  const std::int64_t ranks = communicator_->size();
  EXPECT_THROW(exchange_->reduce_scatter_start(sums.view({1000}, DType::f32), 999 / ranks), Failure);
  EXPECT_THROW(exchange_->reduce_scatter_start(sums.view({500}, DType::i32), 1000), Failure);
  const PartsByPosition parts(static_cast<std::size_t>(exchange_->host_count()));
  EXPECT_THROW(exchange_->all_gather_start(sums.view({1000}, DType::f32), parts), Failure);
  const Buffer weights = exchange_->allocate_for_gathers(1000 * sizeof(float), {});
  EXPECT_THROW(exchange_->all_gather_start(weights.view({1000}, DType::f32), {}), Failure);
  EXPECT_THROW(communicator_->all_reduce_start(weights.view({1000}, DType::f32)), Failure);
  communicator_->barrier();
}

INSTANTIATE_TEST_SUITE_P(
    Between, HostExchangeTest,
    ::testing::Values(Setting{AllReduceAlgorithm::automatic, 60 * 1024}, Setting{AllReduceAlgorithm::two_level, 4096},
                      Setting{AllReduceAlgorithm::two_level, 4096, GradientWire::bf16},
                      Setting{AllReduceAlgorithm::two_level, 4096, GradientWire::int8},
                      Setting{AllReduceAlgorithm::ring, 4096},
                      Setting{AllReduceAlgorithm::automatic, 4096, GradientWire::f32, AddOrder::tree}),
    [](const auto& parameter) {
      const Setting& setting = parameter.param;
      const bool any = setting.algorithm == AllReduceAlgorithm::automatic;
      if (any) return std::string(setting.order == AddOrder::tree ? "automatic_tree" : "automatic");
      const std::string word = setting.algorithm == AllReduceAlgorithm::ring ? "ring" : "two_level";
      return word + "_" + name_of(setting.wire);
    });

}  // namespace
}  // namespace babelring

#include <thread>

#include "tests/mpi/collectives_fixture.h"

namespace babelring {
namespace {

using testing::CollectivesTest;
using ::testing::Each;
using testing::Setting;
using testing::values_of;

TEST_P(CollectivesTest, SumsEverySizeToTheSameBitsOnAllRanks) {
  const bool tiny_segments = GetParam().segment_bytes < 1024;
  for (const std::int64_t count : {0, 1, 2, 3, 4, 5, 7, 31, 1009, 65537, 1000003}) {
    if (tiny_segments && count > 2000) continue;
    expect_sum(reduced(values_of(communicator_->rank(), count, 1)), 1);
  }
}

TEST_P(CollectivesTest, SeparatesAllReducesInFlight) {
  constexpr std::uint64_t buckets = 40;
  const std::int64_t largest = GetParam().segment_bytes < 1024 ? 300 : 300'000;
  const auto count_of = [&](std::uint64_t bucket) { return largest * static_cast<std::int64_t>(bucket % 7) / 6; };
  const Buffer memory = communicator_->allocate(buckets * static_cast<std::size_t>(largest) * sizeof(float));
  const auto bucket_at = [&](std::uint64_t i) {
    return memory.view({count_of(i)}, DType::f32, i * static_cast<std::size_t>(largest) * sizeof(float));
  };
  for (int update = 0; update < 3; ++update) {
    for (std::uint64_t i = 0; i < buckets; ++i) {
      const auto values = values_of(communicator_->rank(), count_of(i), i);
      std::copy(values.begin(), values.end(), bucket_at(i).as<float>());
    }
    for (std::uint64_t i = 0; i < buckets; ++i) communicator_->all_reduce_start(bucket_at(i));
    std::vector<double> one{1};
    communicator_->sum(one);  // a small collective after large ones
    EXPECT_EQ(one[0], communicator_->size());
    communicator_->all_reduce_finish();
    for (std::uint64_t i = 0; i < buckets; ++i) {
      const auto* sum = bucket_at(i).as<float>();
      expect_sum({sum, sum + count_of(i)}, i, update > 0);
    }
  }
}

TEST_P(CollectivesTest, BitsDoNotDependOnTheBucketWhereItSaysSo) {
  if (!communicator_->same_bits_in_any_bucket()) {
    EXPECT_TRUE(narrow() || communicator_->size() > 2 || GetParam().algorithm == AllReduceAlgorithm::mpi)
        << "two f32 are added in one order";
    return;
  }
  constexpr std::int64_t count = 30'011;
  const std::vector<float> values = values_of(communicator_->rank(), count, 3), whole = reduced(values);
  for (const std::int64_t bucket : {std::int64_t{1'013}, std::int64_t{10'007}}) {
    std::vector<float> parts;
    for (std::int64_t begin = 0; begin < count; begin += bucket) {
      const auto end = std::min(count, begin + bucket);
      const std::vector<float> part = reduced({values.begin() + begin, values.begin() + end});
      parts.insert(parts.end(), part.begin(), part.end());
    }
    EXPECT_TRUE(parts == whole) << "buckets of " << bucket;
  }
}

TEST_P(CollectivesTest, PropagatesNonFiniteValues) {
  const auto values = reduced({communicator_->rank() == 0 ? std::nanf("") : 1.0f, INFINITY, 1.0f});
  EXPECT_TRUE(std::isnan(values[0]));
  if (in_int8()) {
    // Each rank of a host sums and rounds one of the three, or a ring's chunk of them.
    EXPECT_FALSE(std::isfinite(values[1]));
    return;
  }
  EXPECT_EQ(values[1], INFINITY);
  EXPECT_EQ(values[2], static_cast<float>(communicator_->size()));
}

TEST_P(CollectivesTest, SumsOverManyUpdatesMissTheLastRoundingErrorsOnly) {
  if (!in_int8()) return;
  const std::int64_t count = 10'007;
  constexpr int updates = 40;
  const std::vector<float> own = values_of(communicator_->rank(), count, 4);
  std::vector<double> expected(own.size()), sums(own.size());
  for (int rank = 0; rank < communicator_->size(); ++rank) {
    const std::vector<float> values = values_of(rank, count, 4);
    for (std::size_t i = 0; i < own.size(); ++i) expected[i] += static_cast<double>(values[i]);
  }
  const Buffer memory = communicator_->allocate(own.size() * sizeof(float));
  const Tensor tensor = memory.view({count}, DType::f32);
  const auto sum = [&] {
    std::copy(own.begin(), own.end(), tensor.as<float>());
    communicator_->all_reduce_start(tensor);
    communicator_->all_reduce_finish();
    return std::vector<float>(tensor.as<float>(), tensor.as<float>() + count);
  };
  const std::vector<float> first = sum();
  EXPECT_FALSE(sum() == first) << "the errors of the first sum are added to the second";
  for (int update = 0; update < updates - 2; ++update) {
    const std::vector<float> values = sum();
    for (std::size_t i = 0; i < own.size(); ++i) sums[i] += static_cast<double>(values[i]);
  }
  double apart = 0;
  for (std::size_t i = 0; i < own.size(); ++i) apart = std::max(apart, std::abs(sums[i] - (updates - 2) * expected[i]));
  EXPECT_LT(apart, 2.1 * wire_error(0, 1) + updates * 1e-6 * communicator_->size())
      << "the first sums' errors, and the last's";
  communicator_->forget_errors();
  EXPECT_TRUE(sum() == first);
}

TEST_P(CollectivesTest, TransfersBetweenRanksAmongAllReduces) {
  const int rank = communicator_->rank(), size = communicator_->size();
  const Buffer summed = communicator_->allocate(4000);
  const Tensor ones = summed.view(Shape{1000}, DType::f32);
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{9} << 20}) {
    std::vector<Transfer> transfers;  // each rank to the next, and rank 0 to all
    for (int from = 0; from + 1 < size; ++from) transfers.push_back({.from = from, .to = from + 1, .bytes = bytes});
    for (int to = 1; to < size; ++to) transfers.push_back({.from = 0, .to = to, .bytes = bytes});
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      if (transfers[i].from != rank && transfers[i].to != rank) continue;
      transfers[i].memory = std::make_shared<Buffer>(allocate_host(static_cast<std::size_t>(bytes)));
      if (transfers[i].from == rank)
        std::memset(transfers[i].memory->data(), static_cast<int>(i) + 1, transfers[i].memory->bytes());
    }
    const std::int64_t sent = communicator_->totals().bytes_sent;
    communicator_->transfers().start(transfers);
    EXPECT_EQ(communicator_->totals().bytes_sent - sent, bytes * std::ranges::count(transfers, rank, &Transfer::from));
    std::fill_n(ones.as<float>(), 1000, 1.0f);
    communicator_->all_reduce_start(ones);
    communicator_->all_reduce_finish();
    EXPECT_EQ(ones.as<float>()[999], static_cast<float>(size));
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      if (transfers[i].to != rank) continue;
      const auto* received = static_cast<const char*>(transfers[i].memory->data());
      EXPECT_EQ(std::count(received, received + bytes, static_cast<char>(i + 1)), bytes) << "transfer " << i;
    }
  }
}

/// A rank that gives units starts their transfer once they are computed, while a checkpoint's is in flight; the
/// receiver has started both. So the messages of the two interleave in different orders on the two ranks.
TEST_P(CollectivesTest, TwoTransfersOfSeveralMessagesBetweenTheSameRanksDoNotMix) {
  const int rank = communicator_->rank(), size = communicator_->size();
  const auto filled = [&](std::int64_t bytes, int number) {
    std::vector<Transfer> transfers;  // all to rank 0, and rank 0 to all
    for (int other = 1; other < size; ++other) {
      for (const bool to_first : {true, false}) {
        Transfer transfer{.from = to_first ? other : 0, .to = to_first ? 0 : other, .bytes = bytes + other};
        if (transfer.from == rank || transfer.to == rank) {
          transfer.memory = std::make_shared<Buffer>(allocate_host(static_cast<std::size_t>(transfer.bytes)));
          std::memset(transfer.memory->data(), transfer.from == rank ? 16 * number + rank + 1 : 0,
                      transfer.memory->bytes());
        }
        transfers.push_back(std::move(transfer));
      }
    }
    return transfers;
  };
  for (const auto& [first_bytes, second_bytes] : {std::pair{9 << 20, 14 << 20}, {5000, 9 << 20}, {9 << 20, 5000}}) {
    const std::vector<Transfer> first = filled(first_bytes, 0), second = filled(second_bytes, 1);
    communicator_->transfers().start(first);
    if (rank % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    communicator_->transfers().start(second);
    communicator_->all_reduce_finish();
    for (const auto& [number, transfers] : {std::pair{0, &first}, {1, &second}}) {
      for (const Transfer& transfer : *transfers) {
        if (transfer.to != rank) continue;
        const auto* received = static_cast<const char*>(transfer.memory->data());
        EXPECT_EQ(std::count(received, received + transfer.bytes, static_cast<char>(16 * number + transfer.from + 1)),
                  transfer.bytes)
            << "transfer " << number << " from rank " << transfer.from;
      }
    }
  }
}

TEST_P(CollectivesTest, SumsDoublesInRankOrder) {
  std::vector<double> values{0.1 * (communicator_->rank() + 1), 1e300, 3};
  communicator_->sum(values);
  double expected = 0;
  for (int rank = 0; rank < communicator_->size(); ++rank) expected += 0.1 * (rank + 1);
  EXPECT_EQ(values[0], expected);
  EXPECT_EQ(values[2], 3.0 * communicator_->size());
  std::vector<double> none;
  communicator_->sum(none);
  EXPECT_TRUE(none.empty());
}

TEST_P(CollectivesTest, OrsTheBitsOfAllRanks) {
  const auto rank = static_cast<std::size_t>(communicator_->rank()),
             size = static_cast<std::size_t>(communicator_->size());
  std::vector<std::uint64_t> words(1000), expected(words.size());
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::size_t other = 0; other < size; ++other) expected[i] |= std::uint64_t{1} << (i + 7 * other) % 64;
    words[i] = std::uint64_t{1} << (i + 7 * rank) % 64;
  }
  communicator_->or_bits(words);
  EXPECT_EQ(words, expected);
  std::vector<std::uint64_t> none;
  communicator_->or_bits(none);
  EXPECT_TRUE(none.empty());
}

TEST_P(CollectivesTest, GathersTextsOfAnyLength) {
  const auto text_of = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 70'001, 'a' + rank % 26); };
  const auto texts = communicator_->all_gather(text_of(communicator_->rank()));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(communicator_->size()));
  for (int rank = 0; rank < communicator_->size(); ++rank) {
    EXPECT_EQ(texts[static_cast<std::size_t>(rank)], text_of(rank));
  }
}

TEST_P(CollectivesTest, BroadcastsFromEveryRoot) {
  for (int root = 0; root < communicator_->size(); ++root) {
    auto values = values_of(communicator_->rank(), 100'003, 9);
    communicator_->broadcast(values.data(), values.size() * sizeof(float), root);
    EXPECT_EQ(values, values_of(root, 100'003, 9));
  }
  communicator_->broadcast(nullptr, 0, 0);
  EXPECT_THROW(communicator_->broadcast(nullptr, 0, communicator_->size()), Failure);
}

TEST_P(CollectivesTest, KnowsRanksAndHosts) {
  EXPECT_EQ(communicator_->hosts().size(), static_cast<std::size_t>(communicator_->size()));
  EXPECT_GE(communicator_->local_rank(), 0);
  EXPECT_LT(communicator_->local_rank(), communicator_->local_size());
  const auto& hosts = communicator_->hosts();
  const auto rank = hosts.begin() + communicator_->rank();
  EXPECT_EQ(communicator_->local_rank(), std::count(hosts.begin(), rank, *rank));
  EXPECT_EQ(communicator_->local_size(), std::count(hosts.begin(), hosts.end(), *rank));
  if (communicator_->rank() == 0) std::cout << communicator_->description() << "\n";
  communicator_->barrier();
}

TEST_P(CollectivesTest, CountsBytesAndBusyTime) {
  EXPECT_EQ(communicator_->totals().bytes_sent, 0);
  reduced(std::vector<float>(3000, 1.0f));
  const int ranks = communicator_->size(), host_ranks = communicator_->local_size();
  std::int64_t sent = communicator_->totals().bytes_sent;
  if (on_two_levels()) {  // each rank of a host sends its shard
    const int hosts = ranks / host_ranks;
    std::vector<double> all{static_cast<double>(sent)};
    communicator_->sum(all);
    std::vector<double> in_messages{0};
    in_messages[0] = static_cast<double>(wire_bytes(GetParam().wire, 3000 / host_ranks) * 2 * (hosts - 1) / hosts);
    communicator_->sum(in_messages);
    EXPECT_EQ(all[0], in_messages[0]);
  } else if (communicator_->description().find("tree or ring") != std::string::npos) {
    EXPECT_GE(sent, 12'000);
  } else {
    EXPECT_EQ(sent, wire_bytes(GetParam().wire, 3000) * 2 * (ranks - 1) / ranks);
  }
  EXPECT_GT(communicator_->totals().busy_ms, 0);
}

TEST_P(CollectivesTest, RecordsEachAllReduceOnceOnEveryRank) {
  const std::int64_t counts[] = {1000, 0, GetParam().segment_bytes < 1024 ? 300 : 250'000, 7};
  const Buffer memory = communicator_->allocate(1'000'000 * sizeof(float));
  communicator_->barrier();
  EXPECT_TRUE(communicator_->tracer()->take_spans().empty());
  communicator_->tracer()->record_spans(true);
  const auto before = SteadyClock::now();
  for (const std::int64_t count : counts) communicator_->all_reduce_start(memory.view({count}, DType::f32));
  communicator_->all_reduce_finish();
  communicator_->barrier();
  const std::vector<CommSpan> spans = communicator_->tracer()->take_spans();
  const auto after = SteadyClock::now();
  EXPECT_TRUE(communicator_->tracer()->take_spans().empty());
  communicator_->tracer()->record_spans(false);
  ASSERT_EQ(spans.size(), std::size(counts) + 1);
  std::string own;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const CommSpan& span = spans[i];
    EXPECT_EQ(span.bytes, i < std::size(counts) ? counts[i] * 4 : 0) << span.name;
    EXPECT_EQ(span.number, spans[0].number + static_cast<std::int64_t>(i));
    EXPECT_LE(before, span.asked);
    EXPECT_LE(span.asked, span.begun);
    EXPECT_LE(span.begun, span.done);
    EXPECT_LE(span.done, after);
    own += fmt::format("{} {} {}\n", span.number, span.name, span.bytes);
  }
  EXPECT_EQ(spans.back().name, "barrier");
  EXPECT_THAT(communicator_->all_gather(own), Each(own));
  EXPECT_TRUE(communicator_->tracer()->take_spans().empty());
}

TEST_P(CollectivesTest, TimesRoundTripsToRank0) {
  const std::vector<RoundTrip> trips = communicator_->tracer()->round_trips(20);
  ASSERT_EQ(trips.size(), communicator_->rank() == 0 ? 0U : 20U);
  for (const RoundTrip& trip : trips) {  // all ranks of this test have one clock
    EXPECT_LT(trip.sent, trip.answered);
    EXPECT_LT(trip.answered, trip.received);
  }
  EXPECT_TRUE(communicator_->tracer()->round_trips(0).empty());
}

TEST_P(CollectivesTest, RefusesTensorsThatAreNotContiguousF32InItsMemory) {
  const Buffer memory = communicator_->allocate(12 * sizeof(float));
  EXPECT_THROW(communicator_->all_reduce_start(memory.view({3, 4}, DType::f32).column_slice(0, 2)), Failure);
  EXPECT_THROW(communicator_->all_reduce_start(memory.view({6}, DType::i32)), Failure);
  std::vector<float> others(12);
  EXPECT_THROW(communicator_->all_reduce_start(Tensor(others.data(), {12}, DType::f32)), Failure);
  EXPECT_THROW(communicator_->all_reduce_start(Tensor(memory.data(), {13}, DType::f32)), Failure);
  communicator_->barrier();
}

TEST_P(CollectivesTest, KeepsMemoryDroppedInFlight) {
  const std::int64_t count = GetParam().segment_bytes < 1024 ? 300 : 1'000'000;
  for (int i = 0; i < 20; ++i) {
    const Buffer memory = communicator_->allocate(static_cast<std::size_t>(count) * sizeof(float));
    communicator_->all_reduce_start(memory.view({count}, DType::f32));
  }
  communicator_->all_reduce_finish();
}

TEST_P(CollectivesTest, SharesMemoryOnEachHost) {
  SharedArrays* const arrays = communicator_->shared_arrays();
  const bool shares = GetParam().algorithm == AllReduceAlgorithm::automatic || on_two_levels();
  if (!shares) {
    EXPECT_EQ(arrays, nullptr);
  }
  if (arrays == nullptr) return;
  constexpr std::int64_t count = 700'011, first = 70'001;
  const int rank = communicator_->local_rank(), ranks = communicator_->local_size();
  std::vector<int> local_ranks;  // the ranks of this host, by index
  for (int other = 0; other < communicator_->size(); ++other) {
    const auto& hosts = communicator_->hosts();
    const auto host_of = [&](int one) { return hosts[static_cast<std::size_t>(one)]; };
    if (host_of(other) == host_of(communicator_->rank())) local_ranks.push_back(other);
  }
  const Buffer memory = communicator_->allocate(count * sizeof(float));
  const Buffer common = arrays->allocate_common(count * sizeof(float));
  EXPECT_THAT(std::vector<char>(static_cast<char*>(common.data()), static_cast<char*>(common.data()) + 1000), Each(0));
  const auto parts = arrays->on_local_ranks(memory.view({count - first}, DType::f32, first * sizeof(float)));
  ASSERT_EQ(parts.size(), static_cast<std::size_t>(ranks));
  EXPECT_EQ(parts[static_cast<std::size_t>(rank)].data, static_cast<float*>(memory.data()) + first);
  const auto values = values_of(communicator_->rank(), count, 3);
  std::copy(values.begin(), values.end(), static_cast<float*>(memory.data()));
  communicator_->barrier();
  // Every rank of a host sums every n-th element and writes it to the host's common memory.
  auto* sums = static_cast<float*>(common.data());
  for (std::int64_t i = rank; i < count - first; i += ranks) {
    for (const ConstTensor& part : parts) sums[i] += part.as<float>()[i];
  }
  communicator_->barrier();
  double apart = 0;
  std::vector<double> expected(static_cast<std::size_t>(count));
  for (const int other : local_ranks) {
    const auto theirs = values_of(other, count, 3);
    for (std::size_t i = 0; i < theirs.size(); ++i) expected[i] += static_cast<double>(theirs[i]);
  }
  for (std::int64_t i = 0; i < count - first; ++i) {
    apart = std::max(apart, std::abs(static_cast<double>(sums[i]) - expected[static_cast<std::size_t>(first + i)]));
  }
  EXPECT_LT(apart, 1e-6 * ranks);
  EXPECT_THROW(arrays->on_local_ranks(common.view({1}, DType::f32)), Failure);
  communicator_->barrier();
}

TEST_P(CollectivesTest, AllocatesZeroedMemoryThatOutlivesIt) {
  const Buffer memory = communicator_->allocate(100'000);
  const auto* floats = static_cast<const float*>(memory.data());
  EXPECT_THAT(std::vector<float>(floats, floats + 25'000), Each(0.0f));
  communicator_.reset();
  static_cast<float*>(memory.data())[24'999] = 1;
}

INSTANTIATE_TEST_SUITE_P(
    AllReduce, CollectivesTest,
    ::testing::Values(Setting{AllReduceAlgorithm::automatic, 1 << 20},
                      Setting{AllReduceAlgorithm::two_level, 4096, GradientWire::bf16},
                      Setting{AllReduceAlgorithm::ring, 1 << 20}, Setting{AllReduceAlgorithm::ring, 4096},
                      Setting{AllReduceAlgorithm::ring, 4},
                      Setting{AllReduceAlgorithm::ring, 1 << 20, GradientWire::bf16},
                      Setting{AllReduceAlgorithm::ring, 4096, GradientWire::bf16},
                      Setting{AllReduceAlgorithm::two_level, 4096, GradientWire::int8},
                      Setting{AllReduceAlgorithm::ring, 1 << 20, GradientWire::int8},
                      Setting{AllReduceAlgorithm::ring, 300, GradientWire::int8},
                      Setting{AllReduceAlgorithm::mpi, 1 << 20},
                      Setting{AllReduceAlgorithm::automatic, 1 << 20, GradientWire::f32, AddOrder::tree},
                      Setting{AllReduceAlgorithm::two_level, 4096, GradientWire::f32, AddOrder::tree},
                      Setting{AllReduceAlgorithm::ring, 4096, GradientWire::f32, AddOrder::tree},
                      Setting{AllReduceAlgorithm::ring, 4, GradientWire::f32, AddOrder::tree}),
    [](const auto& parameter) {
      const Setting& setting = parameter.param;
      const std::string tree = setting.order == AddOrder::tree ? "_tree" : "";
      if (setting.algorithm == AllReduceAlgorithm::automatic) return "automatic" + tree;
      if (setting.algorithm == AllReduceAlgorithm::mpi) return std::string("mpi");
      const bool two_level = setting.algorithm == AllReduceAlgorithm::two_level;
      return (two_level ? "two_level" : "ring") + std::to_string(setting.segment_bytes) +
             (setting.wire == GradientWire::f32 ? "" : "_" + name_of(setting.wire)) + tree;
    });

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  babelring::MpiSession session(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

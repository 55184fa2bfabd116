#include "nmt/comm/shared/two_level_all_reduce.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <mutex>
#include <thread>

namespace babelring {
namespace {

using testing::Each;

/// Sums over hosts in one process: complete when the ranks of all hosts have begun.
class FakeHosts {
 public:
  explicit FakeHosts(int hosts) : values_(static_cast<std::size_t>(hosts)) {}

  /// Waits until `hosts` hosts have begun; returns false before that.
  bool sum(float* data, std::int64_t count) {
    const std::lock_guard lock(mutex_);
    if (begun_ < std::ssize(values_) || closed_) return false;
    std::copy_n(values_[0].data(), count, data);
    for (std::size_t host = 1; host < values_.size(); ++host) {
      for (std::int64_t i = 0; i < count; ++i) data[i] += values_[host][static_cast<std::size_t>(i)];
    }
    return true;
  }
  void add(int host, const float* data, std::int64_t count) {
    const std::lock_guard lock(mutex_);
    values_[static_cast<std::size_t>(host)].assign(data, data + count);
    ++begun_;
  }
  /// Nothing completes until it is opened again.
  void close(bool closed) {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<float>> values_;  // by host
  int begun_ = 0;
  bool closed_ = false;
};

class FakeRing final : public Collective {
 public:
  FakeRing(FakeHosts& hosts, int host, float* data, std::int64_t count)
      : hosts_(hosts), host_(host), data_(data), count_(count) {}
  void begin() override { hosts_.add(host_, data_, count_); }
  Progress advance() override { return hosts_.sum(data_, count_) ? Progress::done : Progress::none; }
  std::string name() const override { return "fake ring"; }
  std::int64_t bytes() const override { return count_ * 4; }
  int waiting_for() const override { return 77; }

 private:
  FakeHosts& hosts_;
  int host_;
  float* data_;
  std::int64_t count_;
};

/// The memory and counters of one host.
struct Host {
  Host(int ranks, std::int64_t count)
      : bytes(static_cast<std::size_t>(count) * sizeof(float)),
        board(SharedFile::create(SharedBoard::file_bytes(ranks))),
        memory(SharedFile::create(SharedMemory::file_bytes(bytes, ranks))) {}
  std::size_t bytes;
  std::shared_ptr<SharedFile> board, memory;
};

/// One rank with its own mappings of its host's files. Its number among all ranks is 10 times its host's plus its own.
struct Rank {
  Rank(const Host& of, int host_number, int number, int all)
      : host(host_number),
        ranks(all),
        board(std::make_shared<SharedBoard>(SharedFile::open(of.board->invitation()), number, all)),
        memory(SharedFile::open(of.memory->invitation()), of.bytes, number) {}
  float* data() const { return reinterpret_cast<float*>(memory.data()); }
  std::unique_ptr<TwoLevelAllReduce> all_reduce(FakeHosts& over, std::int64_t offset, std::int64_t count,
                                                std::int64_t number) const {
    std::vector<int> numbers;
    for (int rank = 0; rank < ranks; ++rank) numbers.push_back(10 * host + rank);
    return std::make_unique<TwoLevelAllReduce>(
        board, memory, data() + offset, count, number, numbers,
        [this, &over](float* shard, std::int64_t size) { return std::make_unique<FakeRing>(over, host, shard, size); });
  }

  int host, ranks;
  std::shared_ptr<SharedBoard> board;
  SharedMemory memory;
};

/// Hosts and ranks per host.
class TwoLevelAllReduceTest : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  int hosts() const { return GetParam().first; }
  int ranks() const { return GetParam().second; }
  void make_ranks(std::int64_t count) {
    for (int host = 0; host < hosts(); ++host) {
      hosts_.emplace_back(ranks(), count);
      for (int rank = 0; rank < ranks(); ++rank) ranks_.emplace_back(hosts_.back(), host, rank, ranks());
    }
  }
  const Rank& rank(int host, int local) const { return ranks_[static_cast<std::size_t>(host * ranks() + local)]; }
  /// A sum over hosts for each rank index.
  std::vector<std::unique_ptr<FakeHosts>> make_rings() const {
    std::vector<std::unique_ptr<FakeHosts>> rings;
    for (int local = 0; local < ranks(); ++local) rings.push_back(std::make_unique<FakeHosts>(hosts()));
    return rings;
  }

  std::vector<Host> hosts_;
  std::vector<Rank> ranks_;
};

/// Advances all collectives until each is done.
void drive(std::vector<std::unique_ptr<TwoLevelAllReduce>>& collectives) {
  while (!collectives.empty()) {
    std::erase_if(collectives, [](const auto& one) { return one->advance() == Collective::Progress::done; });
    std::this_thread::yield();
  }
}

float value(int host, int local, std::int64_t bucket, std::int64_t i) {
  return static_cast<float>((i * 7919 + bucket * 31 + host * 15485863 + local * 104729) % 10007) / 10007.0f;
}

/// Over the ranks of each host first, then over hosts.
float expected_sum(int hosts, int ranks, std::int64_t bucket, std::int64_t i) {
  float sum = 0;
  for (int host = 0; host < hosts; ++host) {
    float of_host = value(host, 0, bucket, i);
    for (int local = 1; local < ranks; ++local) of_host += value(host, local, bucket, i);
    sum = host == 0 ? of_host : sum + of_host;
  }
  return sum;
}

TEST_P(TwoLevelAllReduceTest, SumsOverRanksThenHostsIntoEveryRank) {
  constexpr std::int64_t buckets = 4, count = 300'007;
  make_ranks(buckets * count);
  std::vector<std::vector<std::unique_ptr<FakeHosts>>> rings;
  for (std::int64_t bucket = 0; bucket < buckets; ++bucket) rings.push_back(make_rings());
  std::atomic<std::int64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int host = 0; host < hosts(); ++host) {
    for (int local = 0; local < ranks(); ++local) {
      threads.emplace_back([&, host, local] {
        const Rank& own = rank(host, local);
        std::vector<std::unique_ptr<TwoLevelAllReduce>> collectives;
        for (std::int64_t bucket = 0; bucket < buckets; ++bucket) {
          for (std::int64_t i = 0; i < count; ++i) own.data()[bucket * count + i] = value(host, local, bucket, i);
          FakeHosts& ring = *rings[static_cast<std::size_t>(bucket)][static_cast<std::size_t>(local)];
          collectives.push_back(own.all_reduce(ring, bucket * count, count, bucket));
          collectives.back()->begin();
        }
        drive(collectives);
        for (std::int64_t i = 0; i < buckets * count; ++i) {
          wrong += own.data()[i] != expected_sum(hosts(), ranks(), i / count, i % count) ? 1 : 0;
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(TwoLevelAllReduceTest, LeavesOtherElementsUnchangedAlsoWhereShardsAreEmpty) {
  for (const std::int64_t count : {0, 1, 40}) {
    hosts_.clear();
    ranks_.clear();
    make_ranks(100);
    const auto rings = make_rings();
    std::vector<std::unique_ptr<TwoLevelAllReduce>> collectives;
    for (const Rank& one : ranks_) {
      std::fill_n(one.data(), 100, 1.0f);
      collectives.push_back(one.all_reduce(*rings[static_cast<std::size_t>(one.board->rank())], 30, count, 0));
      EXPECT_EQ(collectives.back()->payload_bytes(), 4 * count);
    }
    std::int64_t messages = 0;
    for (const auto& collective : collectives) messages += collective->bytes();
    EXPECT_EQ(messages, 4 * count * hosts());
    for (const auto& collective : collectives) collective->begin();
    drive(collectives);
    for (const Rank& one : ranks_) {
      EXPECT_THAT(std::vector<float>(one.data(), one.data() + 30), Each(1.0f));
      EXPECT_THAT(std::vector<float>(one.data() + 30, one.data() + 30 + count),
                  Each(static_cast<float>(hosts() * ranks())));
      EXPECT_THAT(std::vector<float>(one.data() + 30 + count, one.data() + 100), Each(1.0f));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, TwoLevelAllReduceTest,
                         testing::Values(std::pair{1, 1}, std::pair{1, 3}, std::pair{2, 2}, std::pair{3, 1},
                                         std::pair{3, 2}),
                         [](const auto& parameter) {
                           return fmt::format("{}x{}", parameter.param.first, parameter.param.second);
                         });

/// Two hosts with two ranks each, of which the test drives the first host's.
class OneHostOfTwo : public testing::Test {
 protected:
  Host host_{2, 64};
  Rank first_{host_, 0, 0, 2}, second_{host_, 0, 1, 2};
  FakeHosts ring_{2}, other_ring_{2};
};

TEST_F(OneHostOfTwo, NamesTheRankItWaitsFor) {
  const auto first = first_.all_reduce(ring_, 0, 64, 0), second = second_.all_reduce(other_ring_, 0, 64, 0);
  first->begin();
  EXPECT_EQ(first->advance(), Collective::Progress::none);
  EXPECT_EQ(first->waiting_for(), 1);
  EXPECT_TRUE(first->notified());
  second->begin();
  EXPECT_EQ(first->advance(), Collective::Progress::some);
  EXPECT_EQ(first->waiting_for(), 77);  // as the sum over hosts says
  EXPECT_FALSE(first->notified());
  EXPECT_EQ(first->advance(), Collective::Progress::none);
  const std::vector<float> of_other_host(32, 5.0f);
  ring_.add(1, of_other_host.data(), 32);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first->advance(), Collective::Progress::some);
  EXPECT_EQ(first->advance(), Collective::Progress::none);
  EXPECT_EQ(first->waiting_for(), 1);
  EXPECT_TRUE(first->notified());
  EXPECT_EQ(second_.data()[31], 5.0f);
  EXPECT_EQ(second_.data()[32], 0.0f);
}

/// A reduce-scatter leaves the values of the other ranks of the host alone, and ends when all have read them.
TEST_F(OneHostOfTwo, ScattersIntoThePartsOfTheRanks) {
  FakeHosts first_ring(1), second_ring(1);
  const auto scatter = [](const Rank& rank, FakeHosts& ring, ElementRange part) {
    const auto over = [&rank, &ring](float* values, std::int64_t size) {
      return std::make_unique<FakeRing>(ring, rank.host, values, size);
    };
    return std::make_unique<TwoLevelAllReduce>(rank.board, rank.memory, rank.data(), 64, 0, std::vector<int>{0, 1},
                                               over, AddOrder::any, part);
  };
  std::fill_n(first_.data(), 64, 1.0f);
  std::fill_n(second_.data(), 64, 2.0f);
  std::vector<std::unique_ptr<TwoLevelAllReduce>> collectives;
  collectives.push_back(scatter(first_, first_ring, {0, 48}));
  collectives.push_back(scatter(second_, second_ring, {48, 64}));
  EXPECT_EQ(collectives[0]->bytes(), 48 * 4);
  EXPECT_EQ(collectives[0]->payload_bytes(), 64 * 4);
  for (const auto& collective : collectives) collective->begin();
  for (int round = 0; round < 10; ++round) EXPECT_NE(collectives[0]->advance(), Collective::Progress::done);
  EXPECT_EQ(collectives[0]->waiting_for(), 1) << "which has not summed yet";
  drive(collectives);
  EXPECT_THAT(std::vector<float>(first_.data(), first_.data() + 48), Each(3.0f));
  EXPECT_THAT(std::vector<float>(first_.data() + 48, first_.data() + 64), Each(1.0f));
  EXPECT_THAT(std::vector<float>(second_.data(), second_.data() + 48), Each(2.0f));
  EXPECT_THAT(std::vector<float>(second_.data() + 48, second_.data() + 64), Each(3.0f));
}

TEST_F(OneHostOfTwo, ALaterAllReduceWaitsForAnEarlierOne) {
  FakeHosts later_ring(1), other_later_ring(1), early_ring(1), other_early_ring(1);
  early_ring.close(true);
  std::vector<std::unique_ptr<TwoLevelAllReduce>> collectives;
  collectives.push_back(first_.all_reduce(early_ring, 0, 32, 0));
  collectives.push_back(second_.all_reduce(other_early_ring, 0, 32, 0));
  collectives.push_back(first_.all_reduce(later_ring, 32, 32, 1));
  collectives.push_back(second_.all_reduce(other_later_ring, 32, 32, 1));
  for (const auto& collective : collectives) collective->begin();
  for (int round = 0; round < 10; ++round) {
    for (const auto& collective : collectives) EXPECT_NE(collective->advance(), Collective::Progress::done);
  }
  EXPECT_EQ(first_.board->own().summed.load(), 0);
  EXPECT_EQ(second_.board->own().summed.load(), 2);
  early_ring.close(false);
  drive(collectives);
}

}  // namespace
}  // namespace babelring

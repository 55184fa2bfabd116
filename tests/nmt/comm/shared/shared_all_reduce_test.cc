#include "nmt/comm/shared/shared_all_reduce.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <mutex>
#include <thread>

namespace babelring {
namespace {

using testing::Each;

/// Ranks are threads, each with its own mapping of the files.
class SharedAllReduceTest : public testing::TestWithParam<int> {
 protected:
  struct Rank {
    Rank(const SharedFile& board_file, const SharedFile& memory_file, std::size_t bytes, int rank, int ranks)
        : board(std::make_shared<SharedBoard>(SharedFile::open(board_file.invitation()), rank, ranks)),
          memory(SharedFile::open(memory_file.invitation()), bytes, rank) {}
    float* data() const { return reinterpret_cast<float*>(memory.data()); }
    SharedAllReduce all_reduce(std::int64_t offset, std::int64_t count, std::int64_t number) const {
      return {board, memory, data() + offset, count, number};
    }
    std::shared_ptr<SharedBoard> board;
    SharedMemory memory;
  };

  void make_ranks(std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    board_file_ = SharedFile::create(SharedBoard::file_bytes(GetParam()));
    memory_file_ = SharedFile::create(SharedMemory::file_bytes(bytes, GetParam()));
    for (int rank = 0; rank < GetParam(); ++rank) {
      ranks_.emplace_back(*board_file_, *memory_file_, bytes, rank, GetParam());
    }
  }

  std::shared_ptr<SharedFile> board_file_, memory_file_;
  std::vector<Rank> ranks_;
};

void drive(const SharedBoard& board, SharedAllReduce& collective) {
  while (true) {
    const auto seen = board.own().event_count.count();
    const auto progress = collective.advance();
    if (progress == Collective::Progress::done) return;
    if (progress == Collective::Progress::none) board.own().event_count.wait(seen, std::chrono::minutes(1));
  }
}

TEST_P(SharedAllReduceTest, SumsInRankOrderIntoEveryRank) {
  constexpr std::int64_t rounds = 5, count = 300'007;
  make_ranks(count);
  const auto value = [](int rank, std::int64_t round, std::int64_t i) {
    return static_cast<float>((i * 7919 + round * 31 + rank * 104729) % 10007) / 10007.0f;
  };
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> wrong{0};
  for (int own = 0; own < GetParam(); ++own) {
    threads.emplace_back([&, own] {
      const Rank& rank = ranks_[static_cast<std::size_t>(own)];
      for (std::int64_t round = 0; round < rounds; ++round) {
        for (std::int64_t i = 0; i < count; ++i) rank.data()[i] = value(own, round, i);
        auto collective = rank.all_reduce(0, count, round);
        collective.begin();
        drive(*rank.board, collective);
        for (std::int64_t i = 0; i < count; ++i) {
          float expected = value(0, round, i);
          for (int other = 1; other < GetParam(); ++other) expected += value(other, round, i);
          wrong += rank.data()[i] != expected ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(SharedAllReduceTest, LeavesOtherElementsUnchanged) {
  make_ranks(100);
  for (const Rank& rank : ranks_) std::fill_n(rank.data(), 100, 1.0f);
  std::vector<SharedAllReduce> collectives;
  for (const Rank& rank : ranks_) collectives.push_back(rank.all_reduce(30, 40, 0));
  for (auto& collective : collectives) collective.begin();
  for (auto& collective : collectives) collective.advance();
  for (auto& collective : collectives) EXPECT_EQ(collective.advance(), Collective::Progress::done);
  for (const Rank& rank : ranks_) {
    EXPECT_THAT(std::vector<float>(rank.data(), rank.data() + 30), Each(1.0f));
    EXPECT_THAT(std::vector<float>(rank.data() + 30, rank.data() + 70), Each(static_cast<float>(GetParam())));
    EXPECT_THAT(std::vector<float>(rank.data() + 70, rank.data() + 100), Each(1.0f));
  }
}

TEST_P(SharedAllReduceTest, NamesTheRankItWaitsFor) {
  make_ranks(16);
  const int last = GetParam() - 1;
  std::vector<SharedAllReduce> collectives;
  for (const Rank& rank : ranks_) collectives.push_back(rank.all_reduce(0, 16, 0));
  for (int rank = 0; rank < last; ++rank) collectives[static_cast<std::size_t>(rank)].begin();
  EXPECT_EQ(collectives[0].advance(), Collective::Progress::none);
  EXPECT_EQ(collectives[0].waiting_for(), last);
  const auto seen = ranks_[0].board->own().event_count.count();
  collectives[static_cast<std::size_t>(last)].begin();
  EXPECT_NE(ranks_[0].board->own().event_count.count(), seen);
  EXPECT_EQ(collectives[0].advance(), Collective::Progress::some);
  EXPECT_EQ(collectives[0].waiting_for(), 1);
}

INSTANTIATE_TEST_SUITE_P(Ranks, SharedAllReduceTest, testing::Values(2, 3, 5));

TEST(SharedAllReduce, SumsAllReducesInOrder) {
  const auto board_file = SharedFile::create(SharedBoard::file_bytes(1));
  const auto board = std::make_shared<SharedBoard>(board_file, 0, 1);
  const SharedMemory memory(SharedFile::create(SharedMemory::file_bytes(8, 1)), 8, 0);
  auto* data = reinterpret_cast<float*>(memory.data());
  SharedAllReduce first(board, memory, data, 1, 0), second(board, memory, data + 1, 1, 1);
  first.begin();
  second.begin();
  EXPECT_EQ(second.advance(), Collective::Progress::none);
  EXPECT_EQ(first.advance(), Collective::Progress::done);
  EXPECT_EQ(second.advance(), Collective::Progress::done);
}

TEST(SharedMemory, ReservesACommonPartInShares) {
  for (const std::size_t bytes : {std::size_t{5'000}, 3 * huge_page + 1}) {
    const auto file = SharedFile::create(SharedMemory::file_bytes(bytes, 1));
    SharedMemory memory(file, bytes, 0);
    for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(memory.reserve_share(rank, 3));
    EXPECT_EQ(memory.bytes(), bytes);
    EXPECT_EQ(memory.data()[bytes - 1], 0);
  }
}

TEST(SharedMemory, FindsPeerAddresses) {
  const auto file = SharedFile::create(SharedMemory::file_bytes(5'000, 3));
  const SharedMemory first(file, 5'000, 0), last(file, 5'000, 2);
  auto* own = reinterpret_cast<float*>(first.data()) + 7;
  EXPECT_EQ(first.peer_of(own, 0), own);
  EXPECT_EQ(first.peer_of(own, 2), reinterpret_cast<float*>(last.data()) + 7);
}

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
  Rank(const Host& files, int host_number, int number, int all)
      : host(host_number),
        ranks(all),
        board(std::make_shared<SharedBoard>(SharedFile::open(files.board->invitation()), number, all)),
        memory(SharedFile::open(files.memory->invitation()), files.bytes, number) {}
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

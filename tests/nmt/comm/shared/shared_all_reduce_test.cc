#include "nmt/comm/shared/shared_all_reduce.h"

#include <gmock/gmock.h>

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

}  // namespace
}  // namespace babelring

#include "worker/record_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Ranks 0, 1 and 2 of four are on one host, where rank 2 has another folder. Rank 3 is on another host.
class FourRanks final : public Communicator {
 public:
  explicit FourRanks(int rank) : rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return 4; }
  const std::vector<std::string>& hosts() const override { return hosts_; }
  int local_rank() const override { return rank_ % 3; }
  int local_size() const override { return 3; }
  Buffer allocate(std::size_t bytes) override { return allocate_host(bytes); }
  void all_reduce_start(Tensor) override {}
  void all_reduce_finish() override {}
  void sum(std::vector<double>&) override {}
  void or_bits(std::vector<std::uint64_t>&) override {}
  std::vector<std::string> all_gather(const std::string& text) override {
    std::vector<std::string> texts(4, rank_ == 2 ? "another folder" : text);
    texts[2] = rank_ == 2 ? text : "another folder";
    return texts;
  }
  void broadcast(void*, std::size_t, int) override {}
  void barrier() override {}
  void fail_fast(std::chrono::milliseconds) override {}
  CommTotals totals() const override { return {}; }
  std::string description() const override { return "four ranks"; }

 private:
  int rank_;
  std::vector<std::string> hosts_{"hostA", "hostA", "hostA", "hostB"};
};

RecordSender chosen(int rank, const std::filesystem::path& folder) {
  FourRanks communicator(rank);
  return choose_record_sender(communicator, folder, 1);
}

TEST(RecordSender, IsTheFirstRankOfAHostThatSharesTheFolder) {
  const std::filesystem::path folder = testing::TempDir() + "record_sender_test." + std::to_string(::getpid());
  EXPECT_THAT(chosen(0, folder).served, ElementsAre(1));
  EXPECT_FALSE(chosen(0, folder).by);
  EXPECT_EQ(chosen(1, folder).by, 0);
  EXPECT_THAT(chosen(1, folder).served, IsEmpty());
  for (const int alone : {2, 3}) {
    EXPECT_THAT(chosen(alone, folder).served, IsEmpty()) << alone;
    EXPECT_FALSE(chosen(alone, folder).by) << alone;
  }
  EXPECT_TRUE(std::filesystem::is_directory(folder / "attempt-1"));
  std::filesystem::remove_all(folder);
}

TEST(RecordSender, ARankWithoutAFolderSendsItsOwn) {
  for (const int rank : {0, 1}) {
    EXPECT_THAT(chosen(rank, "/proc/none").served, IsEmpty());
    EXPECT_FALSE(chosen(rank, "/proc/none").by);
  }
}

}  // namespace
}  // namespace babelring

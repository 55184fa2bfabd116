// One rank of a host sends the records of the ranks that it serves.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/soon.h"
#include "tests/worker/full_disk.h"
#include "tests/worker/reporter_fixture.h"

namespace babelring {
namespace {

using namespace std::chrono_literals;

class ServedRanksTest : public ReporterTest {};

TEST_F(ServedRanksTest, OneRankOfAHostSendsTheRecordsOfAll) {
  TestServer server(ledger_);
  std::vector<std::unique_ptr<Reporter>> ranks;
  for (const std::int64_t rank : {0, 1, 2}) {
    ReporterOptions of_rank = options(server.address(), 1, rank);
    if (rank == 0) of_rank.sender.served = {1, 2};
    if (rank > 0) of_rank.sender.by = 0;
    ranks.push_back(std::make_unique<Reporter>(of_rank));
  }
  for (int round = 0; round < 20; ++round) {
    for (const auto& rank : ranks) write_steps(*rank, 20);
  }
  std::vector<std::thread> closing;
  for (auto& rank : ranks) {
    closing.emplace_back([&rank] {
      write_steps(*rank, 1);
      EXPECT_EQ(rank->close(longest_wait), 0);
      rank.reset();  // as the process ends
    });
  }
  for (std::thread& thread : closing) thread.join();
  for (const std::int64_t rank : {0, 1, 2}) expect_complete(401, 1, rank);
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(ledger_.duplicates(), 0);
}

TEST_F(ServedRanksTest, ARankSendsItsOwnRecordsOnceItsSenderHasEnded) {
  TestServer server(ledger_);
  ReporterOptions served = options(server.address(), 1, 1), sender = options(server.address(), 1, 0);
  served.sender.by = 0;
  sender.sender.served = {1};
  auto first = std::make_unique<Reporter>(sender);
  Reporter second(served);
  write_steps(second, 50);
  ASSERT_TRUE(soon([&] { return ledger_.sequences(1, 1).size() == 50; })) << "sent by rank 0";
  first.reset();  // while rank 1 goes on
  write_steps(second, 50);
  ASSERT_TRUE(soon([&] { return ledger_.sequences(1, 1).size() == 100; }));
  EXPECT_EQ(second.close(longest_wait), 0);
  expect_complete(100, 1, 1);
}

TEST_F(ServedRanksTest, ARankWhoseSenderNeverBeginsSendsItsOwnRecords) {
  TestServer server(ledger_);
  ReporterOptions served = options(server.address(), 1, 1);
  served.sender = {.by = 0, .patience = 1ms};
  Reporter reporter(served);
  write_steps(reporter, 5);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  expect_complete(5, 1, 1);
}

TEST_F(ServedRanksTest, ARankSendsItsOwnRecordsWhileTheDiskIsFull) {
  TestServer server(ledger_);
  ReporterOptions served = options(server.address(), 1, 1);
  served.sender.by = 0;
  Reporter second(served);
  write_steps(second, 3);
  {
    const FullDisk full(spool_path(folder_, 1, 1));
    write_steps(second, 10);
    ASSERT_TRUE(soon([&] { return ledger_.sequences(1, 1).size() == 13; })) << "from memory";
  }
  EXPECT_EQ(second.close(longest_wait), 0);
  expect_complete(13, 1, 1);
}

TEST_F(ServedRanksTest, TheSenderOfAHostSendsRemainingRecordsOfServedRanks) {
  for (const std::int64_t rank : {4, 5}) {
    Reporter down(options("http://127.0.0.1:1", 1, rank));
    write_steps(down, 20);
    EXPECT_EQ(down.close(20ms), 20);
  }
  TestServer server(ledger_);
  ReporterOptions sender = options(server.address(), 2, 4);
  sender.sender.served = {5};
  Reporter reporter(sender);
  EXPECT_EQ(reporter.close(longest_wait), 0);
  for (const std::int64_t rank : {4, 5}) expect_complete(20, 1, rank);
}

}  // namespace
}  // namespace babelring

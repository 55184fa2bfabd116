#include "cli/runs/run_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <fcntl.h>
#include <fstream>
#include <numeric>

#include "base/failure.h"
#include "base/files.h"
#include "base/records/spool_reader.h"
#include "tests/worker/test_server.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SyncTest : public testing::Test {
 protected:
  SyncTest() { fs::remove_all(folder_); }
  ~SyncTest() override { fs::remove_all(folder_); }

  /// A spool with the steps 1 to `last`, of which the server has confirmed those up to `confirmed`.
  void write(std::int64_t attempt, std::int64_t rank, std::int64_t last, std::int64_t confirmed) const {
    const fs::path file = spool_path(folder_ / "spool", attempt, rank);
    fs::create_directories(file.parent_path());
    std::ofstream out(file);
    for (std::int64_t sequence = 1; sequence <= last; ++sequence) {
      const RecordHeader header{.run = run, .attempt = attempt, .sequence = sequence, .rank = rank, .host = "hostA"};
      out << to_text(to_json(Record{header, StepRecord{.update = sequence}})) << '\n';
    }
    out.close();
    SpoolReader reader(file);
    reader.seek(confirmed);
    reader.save_acknowledged();
  }
  SyncedRun sync(const TestServer& server, bool all = false) const {
    return sync_runs(
               {folder_},
               {.server = {server.address()}, .all = all, .first_retry = std::chrono::milliseconds(1), .retries = 3})
        .front();
  }
  static std::vector<std::int64_t> numbers(std::int64_t last) {
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(last));
    std::iota(numbers.begin(), numbers.end(), std::int64_t{1});
    return numbers;
  }

  static constexpr const char* run = "r_01J0000000000000000000000Z";
  const fs::path folder_ = testing::TempDir() + "sync_test." + std::to_string(::getpid());
  Ledger ledger_;
};

TEST_F(SyncTest, SendsWhatIsNotConfirmedAndOnlyThat) {
  write(1, 0, 1200, 0);
  write(1, 1, 30, 0);
  write(2, 0, 12, 0);
  TestServer server(ledger_);
  const SyncedRun first = sync(server);
  EXPECT_EQ(first.run, run);
  EXPECT_EQ(first.sent, 1242);
  EXPECT_EQ(first.first_update, 1);
  EXPECT_EQ(first.last_update, 1200);
  EXPECT_EQ(ledger_.sequences(1, 0), numbers(1200));
  EXPECT_EQ(ledger_.sequences(1, 1), numbers(30));
  EXPECT_EQ(ledger_.sequences(2, 0), numbers(12));
  EXPECT_EQ(ledger_.duplicates(), 0);
  const SyncedRun second = sync(server);
  EXPECT_EQ(second.sent, 0);
  EXPECT_EQ(second.run, run);
  EXPECT_EQ(ledger_.duplicates(), 3) << "one record a spool asks whether the server has those before it";
}

TEST_F(SyncTest, SendsAgainTheRecordsThatTheServerLost) {
  write(1, 0, 100, 0);
  TestServer server(ledger_);
  sync(server);
  ledger_.lose_after(36);
  const SyncedRun again = sync(server);
  EXPECT_EQ(again.sent, 64);
  EXPECT_EQ(again.first_update, 37);
  ledger_.lose_after(0);
  EXPECT_EQ(sync(server).sent, 100);
  EXPECT_EQ(ledger_.sequences(1, 0), numbers(100));
  write(1, 1, 50, 40);  // an older mark, and a server that has nothing
  EXPECT_EQ(sync(server).sent, 50);
}

TEST_F(SyncTest, RefusedRecordsAreCountedAndSentAgainIfAsked) {
  write(1, 0, 100, 0);
  bool refuses = true;
  ledger_.set_rule([&](const std::vector<Record>& records, std::size_t) {
    const bool has = std::ranges::any_of(records, [](const Record& each) { return each.header.sequence == 41; });
    return refuses && has ? 422 : 200;
  });
  TestServer server(ledger_);
  const SyncedRun first = sync(server);
  EXPECT_EQ(first.sent, 99);
  EXPECT_EQ(first.refused, 1);
  EXPECT_THAT(first.refusal, HasSubstr("as the rule says"));
  refuses = false;
  EXPECT_EQ(sync(server).sent, 0);
  EXPECT_EQ(sync(server, true).sent, 1);
}

TEST_F(SyncTest, ARunThatIsStillWrittenIsLeftToItsWorker) {
  write(1, 0, 5, 0);
  TestServer server(ledger_);
  for (const fs::path& file : {spool_path(folder_ / "spool", 1, 0), folder_ / "run.lock"}) {
    std::ofstream(file, std::ios::app);
    const FileDescriptor held(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
    EXPECT_THAT([&] { sync(server); }, ThrowsMessage<UsageFailure>(HasSubstr("a process still trains there")));
  }
  EXPECT_THAT([&] { sync_runs({folder_, folder_ / "absent"}, {.server = {server.address()}}); },
              ThrowsMessage<UsageFailure>(HasSubstr("absent: found no spool/attempt-*/rank-*.jsonl")));
  EXPECT_EQ(server.requests(), 0);
}

TEST_F(SyncTest, AServerThatDoesNotTakeThemIsTriedAFewTimes) {
  write(1, 0, 5, 0);
  {
    TestServer server(ledger_, [](int request) { return Behaviour{.status = request < 2 ? 503 : 200}; });
    EXPECT_EQ(sync(server).sent, 5);
  }
  write(1, 0, 5, 0);
  ledger_.lose_after(0);
  TestServer barred(ledger_, [](int) { return Behaviour{.status = 401, .body = R"({"code":"token_missing"})"}; });
  EXPECT_THAT([&] { sync(barred); },
              ThrowsMessage<Failure>(AllOf(HasSubstr("answered 401"), HasSubstr("a token whose scope is ingest"),
                                           HasSubstr("repeat the command"))));
  EXPECT_EQ(barred.requests(), 1);
}

}  // namespace
}  // namespace babelring

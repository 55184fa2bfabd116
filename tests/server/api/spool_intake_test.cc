#include "server/api/spool_intake.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <fstream>

#include "base/clock.h"
#include "base/files.h"
#include "base/records/run_marks.h"
#include "server/store/control.h"
#include "server/store/runs.h"
#include "tests/server/test_server.h"

namespace babelring::api {
namespace {

namespace fs = std::filesystem;
using testing::record_of;
using testing::run_id;
using testing::step_record;

/// A run whose folder lies below the server's root, and of which only the first records arrived.
class SpoolIntakeTest : public ::testing::Test {
 protected:
  SpoolIntakeTest() : root_(fs::canonical(files_.path())) {
    server_.service().checkpoint_roots = {root_};
    write_run_file(run_id);
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      std::vector<Record> records = {record_of(LifecycleRecord{.event = rank == 0 ? "started" : "rank_up"}, 1, rank)};
      for (std::int64_t update = 1; update <= 50; ++update) {
        records.push_back(step_record(update + 1, update, rank));
      }
      if (rank == 0) records.push_back(record_of(LifecycleRecord{.event = "finished", .detail = "max_updates"}, 52));
      write(rank, records);
      records.resize(11);
      testing::put(server_.store(), records);
    }
  }
  void write_run_file(const std::string& run, const std::string& server = "") const {
    fs::create_directories(folder());
    babelring::write_run_file(folder(), {.run = run, .attempt = 1, .host = "h0", .server = server});
  }
  void write(std::int64_t rank, const std::vector<Record>& records) const {
    const fs::path file = spool(rank);
    fs::create_directories(file.parent_path());
    std::ofstream out(file);
    for (const Record& record : records) out << to_text(to_json(record)) << '\n';
  }
  fs::path folder() const { return root_ / "experiments" / "run"; }
  fs::path spool(std::int64_t rank) const { return spool_path(folder() / "spool", 1, rank); }
  std::string stored() { return server_.store().reader()->database.scalar("SELECT sum(last) FROM arrivals"); }
  store::RunRow run() { return store::find_run(*server_.store().reader(), run_id).value(); }

  testing::TemporaryFolder files_;
  const fs::path root_;
  testing::TestServer server_;
  SpoolIntake intake_{server_.service()};
};

TEST_F(SpoolIntakeTest, TakesWhatAnEndedRunCouldNotSend) {
  EXPECT_EQ(run().state, store::RunState::running);
  EXPECT_EQ(intake_.take(), 41 + 40);
  EXPECT_EQ(stored(), "103");
  EXPECT_EQ(run().state, store::RunState::succeeded);
  EXPECT_EQ(run().last.step, 50);
  EXPECT_EQ(intake_.take(), 0) << "nothing is taken twice";
  EXPECT_EQ(server_.store().counts().duplicates, 0U);
}

TEST_F(SpoolIntakeTest, LeavesARunToTheProcessThatTrainsIt) {
  for (const fs::path& file : {spool(1), folder() / "run.lock"}) {
    std::ofstream(file, std::ios::app);
    const FileDescriptor held(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
    EXPECT_EQ(intake_.take(), 0) << file;
  }
  EXPECT_EQ(intake_.take(), 81);
}

TEST_F(SpoolIntakeTest, ReadsOnlyBelowItsRootsAndOnlyTheRunsOwnFolder) {
  const auto take = [this] { return SpoolIntake(server_.service()).take(); };
  server_.service().checkpoint_roots = {root_ / "experiments" / "other"};
  EXPECT_EQ(take(), 0);
  server_.service().checkpoint_roots = {root_};
  write_run_file("r_01J0000000000000000000000Z");
  EXPECT_EQ(take(), 0) << "another run's folder";
  write_run_file(run_id);
  server_.store().write([](store::Database& database) {
    database.prepare("UPDATE runs SET deleted_ms = 1 WHERE id = ?").bind(run_id).run();
  });
  EXPECT_EQ(take(), 0) << "a deleted run";
}

TEST_F(SpoolIntakeTest, FindsTheFolderByACheckpoint) {
  CheckpointRecord checkpoint;
  checkpoint.name = "update-00000010";
  checkpoint.folder = folder() / "checkpoints" / checkpoint.name;
  testing::put(server_.store(), {record_of(checkpoint, 12)});
  fs::create_directories(root_ / "deep" / "below");
  fs::rename(folder(), root_ / "deep" / "below" / "run");
  EXPECT_EQ(intake_.take(), 0) << "it was moved";
  fs::create_directories(folder().parent_path());
  fs::rename(root_ / "deep" / "below" / "run", folder());
  EXPECT_GT(intake_.take(), 70);
}

TEST_F(SpoolIntakeTest, SkipsRefusedRecordsAndFilesOfAnotherRun) {
  std::vector<Record> records;
  for (std::int64_t update = 11; update <= 50; ++update) records.push_back(step_record(update + 1, update, 1));
  std::get<StepRecord>(records[7].body).memory_bytes["a,b"] = 1;  // a reserved character
  write(1, records);
  EXPECT_EQ(intake_.take(), 41 + 39);
  records.push_back(step_record(99, 99, 1));
  records.back().header.run = "r_01J0000000000000000000000Z";
  write(1, {records.back()});
  EXPECT_EQ(intake_.take(), 0);
}

/// A run that began and ended while the server was away.
TEST_F(SpoolIntakeTest, TakesARunThatItHasNeverHeardOfOnceIfThatWasToReport) {
  const auto take = [this] { return SpoolIntake(server_.service()).take(); };
  const auto forget = [this](bool purged) {
    server_.store().write([&](store::Database& database) {
      store::purge_run(database, database.prepare("SELECT run FROM runs").value<std::int64_t>());
      if (!purged) database.execute("DELETE FROM purged_runs");
    });
  };
  forget(false);
  EXPECT_EQ(take(), 0) << "it was to report to no server";
  write_run_file(run_id, "http://localhost:7070");
  std::ofstream(spool(0).parent_path() / "rank-0.ack") << "120 1\n";
  EXPECT_EQ(take(), 0) << "a server had records of it";
  fs::remove(spool(0).parent_path() / "rank-0.ack");
  EXPECT_EQ(SpoolIntake(server_.service()).take(SteadyClock::now()), 0) << "late";
  {
    const FileDescriptor held(::open(spool(1).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
    EXPECT_EQ(take(), 0) << "a process trains there";
  }
  EXPECT_EQ(take(), 52 + 51);
  EXPECT_EQ(run().state, store::RunState::succeeded);
  EXPECT_EQ(take(), 0);
  forget(true);
  EXPECT_EQ(take(), 0) << "somebody has deleted it";
}

TEST_F(SpoolIntakeTest, StopsInTime) {
  EXPECT_EQ(intake_.take(SteadyClock::now()), 0);
  EXPECT_EQ(intake_.take(), 81) << "the next time it goes on";
}

}  // namespace
}  // namespace babelring::api

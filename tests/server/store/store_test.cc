#include "server/store/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "server/store/alerts.h"
#include "server/store/control.h"
#include "tests/server/store/store_fixture.h"
#include "tests/soon.h"

namespace babelring::store {
namespace {

TEST_F(StoreTest, TakesNoMoreThanItsMemoryMayHoldWhileTheDiskIsSlow) {
  std::promise<void> begun, slow;
  std::thread disk([&] {
    store->write([&](Database&) {
      begun.set_value();
      slow.get_future().wait();
    });
  });
  begun.get_future().wait();
  const std::string text(1 << 20, 'x');
  const std::array<std::string, 3> runs = {run_id, "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3F", "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3G"};
  std::atomic<int> stored = 0;
  int accepted = 0;
  bool refused = false;
  for (std::int64_t i = 1; i <= 80 && !refused; ++i) {
    const bool taken = store->submit({runs.at(i % 3), 1, 0, "h", {record_of(LogRecord{.text = text}, i)}},
                                     [&](const Batch&, const IngestResult&) { ++stored; });
    taken ? ++accepted : refused = true;
    if (i == 20 || i == 40) {
      EXPECT_EQ(store->health().queue, i == 20);
    }
  }
  EXPECT_TRUE(refused);
  EXPECT_EQ(accepted, 63) << "64 MiB of them, with what is around the text";
  slow.set_value();
  disk.join();
  ASSERT_TRUE(soon([&] { return stored == accepted && store->health().queue; }));
  EXPECT_EQ(put(*store, {record_of(LogRecord{.text = text}, 100)}).status, IngestResult::Status::stored);
}

TEST_F(StoreTest, ALargeDatabaseIsCheckedWhileItWorksAndDamageStopsWriting) {
  const auto note = [&](const char* word) { std::ofstream(folder.path() / "server.lock") << word; };
  const auto noted = [&] {
    std::string word;
    std::ifstream(folder.path() / "server.lock") >> word;
    return word;
  };
  store->write([](Database& database) {
    database.execute(
        "INSERT INTO audit(time_ms, actor, token, method, route, object, status, request, address) "
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70) "
        "SELECT i, '', '', '', '', '', 200, '', hex(zeroblob(524288)) FROM n");
  });
  store.reset();
  ASSERT_GT(std::filesystem::file_size(folder.path() / "babelring.db"), Store::max_checked_at_once);
  EXPECT_EQ(noted(), "clean");
  note("running");
  open();
  EXPECT_EQ(put(*store, {step_record(1, 1)}).status, IngestResult::Status::stored);
  EXPECT_TRUE(store->health().database);
  store.reset();  // perhaps before the check is done
  note("running");
  {
    std::fstream file(folder.path() / "babelring.db", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096 * 8192);  // within a long row
    file << std::string(8192, '\0');
  }
  open();
  EXPECT_TRUE(soon([&] { return !store->health().database; }));
  EXPECT_FALSE(store->submit({run_id, 1, 0, "h", {step_record(2, 2)}}, [](const Batch&, const IngestResult&) {}));
  EXPECT_THROW(store->write([](Database&) {}), Busy);
  EXPECT_EQ(series("loss", 10).total, 1) << "reading goes on";
  store.reset();
  EXPECT_EQ(noted(), "running") << "the next start checks again";
}

/// The reason why the folder cannot be opened, or "".
std::string refusal(const std::filesystem::path& folder, bool new_database = false) {
  try {
    const Store opened(folder, new_database);
    return "";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

TEST_F(StoreTest, AFolderThatWasUsedNeedsItsDatabase) {
  put(*store, steps(1, 3));
  store.reset();
  const auto database = folder.path() / "babelring.db", kept = folder.path() / "kept.db";
  std::filesystem::rename(database, kept);
  const std::string missing = refusal(folder.path());
  EXPECT_TRUE(
      missing.starts_with("data folder " + folder.path().string() + ": babelring.db is missing, but server.lock"))
      << missing;
  EXPECT_NE(missing.find("--restore"), std::string::npos);
  std::ofstream(database).flush();
  EXPECT_NE(refusal(folder.path()).find("babelring.db is empty"), std::string::npos);
  std::filesystem::rename(kept, database);
  EXPECT_NE(refusal(folder.path(), true).find("exists"), std::string::npos) << "nothing is thrown away";
  open();
  EXPECT_EQ(series("loss", 10).total, 3);
  store.reset();

  std::filesystem::resize_file(database, 0);
  EXPECT_EQ(refusal(folder.path(), true), "");
  EXPECT_EQ(refusal(folder.path()), "") << "the new database counts from then on";
}

TEST_F(StoreTest, ATokensFileIsASignOfUseToo) {
  store.reset();
  for (const char* name : {"babelring.db", "server.lock"}) std::filesystem::remove(folder.path() / name);
  EXPECT_EQ(refusal(folder.path()), "") << "a folder like a new one";
  for (const char* name : {"babelring.db", "server.lock"}) std::filesystem::remove(folder.path() / name);
  std::ofstream(folder.path() / "admin.token") << "bbr_x\n";
  EXPECT_NE(refusal(folder.path()).find("admin.token shows"), std::string::npos);
}

TEST_F(StoreTest, AServerKilledBeforeItsFirstDatabaseHasUsedNothing) {
  store.reset();
  std::filesystem::remove(folder.path() / "babelring.db");
  std::ofstream(folder.path() / "server.lock").flush();  // as it is between its making and the database's
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST_F(StoreTest, OneBadBatchDoesNotTakeOthersAlong) {
  std::promise<void> begun, go;
  std::thread busy([&] {  // so that all of them wait, and are then committed together
    store->write([&](Database&) {
      begun.set_value();
      go.get_future().wait();
    });
  });
  begun.get_future().wait();
  std::vector<Record> scattered;
  for (std::int64_t n = 1; n <= 1100; ++n) scattered.push_back(step_record(n * 2, n, 1));
  std::vector<IngestResult> results;  // filled on the writer's thread, in order
  for (auto& records : {steps(1, 5), scattered, steps(1, 5, 2)}) {
    ASSERT_TRUE(store->submit(babelring::testing::batch_of(records),
                              [&](const Batch&, const IngestResult& result) { results.push_back(result); }));
  }
  go.set_value();
  busy.join();
  ASSERT_TRUE(soon([&] { return store->counts().batches == 2 && store->counts().refused == 1; }));
  store->write([](Database&) {});  // the senders have been told
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].fresh.size(), 5u);
  EXPECT_EQ(results[1].status, IngestResult::Status::rejected);
  EXPECT_EQ(results[2].fresh.size(), 5u);
  EXPECT_EQ(store->counts().batches, 2u);
  EXPECT_EQ(store->counts().refused, 1u) << "tried twice, refused once";
}

TEST_F(StoreTest, APurgedRunLeavesNothing) {
  put(*store, steps(1, 5));
  store->write([](Database& database) {
    for (const std::string& run : {run_id, std::string()}) {
      AlertRow alert;
      alert.rule = alert.kind = "stall";
      alert.run = run;
      raise_alert(database, alert);
    }
    const std::int64_t number = std::stoll(database.scalar("SELECT run FROM runs"));
    purge_run(database, number);
  });
  auto reader = store->reader();
  EXPECT_FALSE(find_run(*reader, run_id));
  EXPECT_EQ(reader->database.scalar("SELECT count(*) FROM steps"), "0");
  EXPECT_TRUE(list_alerts(*reader, run_id, "", 0, 10).empty());
  EXPECT_EQ(list_alerts(*reader, "", "", 0, 10).size(), 1u) << "the server's own";
}

TEST_F(StoreTest, RemovesWhatAKilledServerLeftUnfinished) {
  namespace fs = std::filesystem;
  const fs::path backups = folder.path() / "backups";
  fs::create_directories(backups);
  const std::vector<fs::path> unfinished = {folder.path() / "address.tmp.123", folder.path() / ".tmp-restore.db",
                                            backups / ".tmp-babelring-1.db", backups / ".tmp-babelring-1.db-journal"};
  const std::vector<fs::path> others = {folder.path() / "address", folder.path() / "notes.tmp.txt",
                                        folder.path() / "notes.tmp.", backups / "babelring-1.db"};
  for (const fs::path& file : unfinished) std::ofstream(file) << "half";
  for (const fs::path& file : others) std::ofstream(file) << "whole";
  fs::create_directory(folder.path() / "run.tmp.5");
  EXPECT_THROW(Store second(folder.path()), Failure);
  for (const fs::path& file : unfinished) EXPECT_TRUE(fs::exists(file)) << "the other server's: " << file;
  open();
  for (const fs::path& file : unfinished) EXPECT_FALSE(fs::exists(file)) << file;
  for (const fs::path& file : others) EXPECT_TRUE(fs::exists(file)) << file;
  EXPECT_TRUE(fs::exists(folder.path() / "run.tmp.5"));
}

TEST_F(StoreTest, IsHeldByOneServerAtATime) {
  EXPECT_THROW(Store second(folder.path()), Failure);
}

TEST_F(StoreTest, RefusesADatabaseOfANewerProgram) {
  store.reset();
  {
    Database database(folder.path() / "babelring.db", Database::Mode::writer);
    database.execute("PRAGMA user_version = 99");
  }
  EXPECT_THROW(Store newer(folder.path()), Failure);
}

}  // namespace
}  // namespace babelring::store

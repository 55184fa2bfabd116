#include "server/store/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "server/store/alerts.h"
#include "server/store/control.h"
#include "tests/server/store/store_fixture.h"
#include "tests/soon.h"

namespace babelring::store {
namespace {

namespace fs = std::filesystem;

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

class WalDamageTest : public StoreTest {
 protected:
  /// A copy of the database and its log as a killed server leaves them, after some commits.
  fs::path killed_copy() {
    Database reader(store->database_file(), Database::Mode::reader);
    reader.execute("BEGIN");
    reader.scalar("SELECT count(*) FROM runs");  // as long as it reads this, the log is not begun anew
    for (std::int64_t update = 1; update <= 40; ++update) put(*store, steps(update, update));
    const fs::path copy = folder.path() / "copy";
    fs::create_directory(copy);
    for (const char* name : {"babelring.db", "babelring.db-wal", "server.lock"}) {
      fs::copy_file(folder.path() / name, copy / name);
    }
    return copy;
  }
  static void flip(const fs::path& file, std::int64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    const char byte = static_cast<char>(stream.get() ^ 4);
    stream.seekp(at);
    stream.put(byte);
  }
  static std::int64_t newest(Store& opened) {
    return std::stoll(opened.reader()->database.scalar("SELECT coalesce(max(last), 0) FROM arrivals"));
  }
  static constexpr std::int64_t frame_bytes = 24 + 8192;
};

TEST_F(WalDamageTest, OneFlippedBitIsFoundAndSaid) {
  const fs::path copy = killed_copy(), wal = copy / "babelring.db-wal";
  EXPECT_FALSE(find_wal_damage(wal));
  EXPECT_FALSE(find_wal_damage(copy / "absent"));
  const std::int64_t frames = (static_cast<std::int64_t>(fs::file_size(wal)) - 32) / frame_bytes;
  ASSERT_GT(frames, 40);
  const std::int64_t damaged = frames / 2;
  // A byte of the page, of the page's number, of the salt, of the checksum.
  for (const std::int64_t at : {5000, 3, 9, 20}) {
    flip(wal, 32 + (damaged - 1) * frame_bytes + at);
    const auto found = find_wal_damage(wal);
    ASSERT_TRUE(found) << at;
    EXPECT_EQ(found->frame, damaged);
    EXPECT_EQ(found->frames, frames);
    EXPECT_GT(found->transactions, 1);
    EXPECT_LT(found->transactions, 40);
    flip(wal, 32 + (damaged - 1) * frame_bytes + at);
  }
  for (const std::int64_t at : {0, 10, 13, 17, 25}) {  // of the header: magic, page size, number, salt, checksum
    flip(wal, at);
    const auto found = find_wal_damage(wal);
    ASSERT_TRUE(found) << at;
    EXPECT_EQ(found->frame, 0);
    flip(wal, at);
  }
  EXPECT_FALSE(find_wal_damage(wal)) << "whole again";
  flip(wal, 32 + (damaged - 1) * frame_bytes + 5000);
  Store opened(copy);
  ASSERT_TRUE(opened.wal_damage());
  EXPECT_EQ(opened.wal_damage()->frame, damaged);
  EXPECT_LT(newest(opened), 40);
}

TEST_F(WalDamageTest, AFrameThatAKilledServerHadOnlyBegunIsNoDamage) {
  const fs::path copy = killed_copy(), wal = copy / "babelring.db-wal";
  const auto bytes = fs::file_size(wal);
  fs::resize_file(wal, bytes - 100);  // a torn frame
  EXPECT_FALSE(find_wal_damage(wal));
  fs::resize_file(wal, bytes - frame_bytes);  // a transaction without its end
  EXPECT_FALSE(find_wal_damage(wal));
  Store opened(copy);
  EXPECT_FALSE(opened.wal_damage());
  EXPECT_EQ(newest(opened), 39);
}

/// Frames of an earlier log stay in the file behind those of the present one.
TEST_F(WalDamageTest, FramesOfAnEarlierLogAreNoDamage) {
  const fs::path copy = killed_copy(), other = folder.path() / "other";
  Store shorter(other);
  put(shorter, steps(1, 1));
  const fs::path wal = copy / "babelring.db-wal";
  std::ostringstream present;
  present << std::ifstream(other / "babelring.db-wal", std::ios::binary).rdbuf();
  ASSERT_LT(present.str().size(), fs::file_size(wal));
  std::fstream(wal, std::ios::in | std::ios::out | std::ios::binary) << present.str();
  EXPECT_FALSE(find_wal_damage(wal));
}

TEST_F(StoreTest, ADiskTooFullForTheSharedMemoryIsFull) {
  EXPECT_TRUE(SqlFailure("disk I/O error", 4874).full());  // SQLITE_IOERR_SHMSIZE
  EXPECT_TRUE(SqlFailure("database or disk is full", 13).full());
  EXPECT_FALSE(SqlFailure("disk I/O error", 10).full());
}

TEST_F(StoreTest, ARunsRecordsAreNotStoredBehindLostOnes) {
  EXPECT_EQ(put(*store, steps(1, 5)).fresh.size(), 5U);
  const auto send = [this](std::int64_t confirmed, std::int64_t first, std::int64_t rank = 0) {
    Batch batch{run_id, 1, rank, "hostA", steps(first, first, rank)};
    batch.confirmed = confirmed;
    std::promise<IngestResult> result;
    store->submit(std::move(batch), [&](const Batch&, const IngestResult& stored) { result.set_value(stored); });
    return result.get_future().get();
  };
  const IngestResult refused = send(9, 10);
  EXPECT_EQ(refused.status, IngestResult::Status::refused);
  EXPECT_EQ(refused.refusal, Refusal::Kind::records_missing);
  EXPECT_EQ(refused.stored, 5);
  EXPECT_EQ(send(9, 10, 1).stored, 0) << "a rank of which nothing is stored";
  EXPECT_EQ(send(5, 6).fresh.size(), 1U);
  EXPECT_EQ(send(0, 20).fresh.size(), 1U) << "a sender that knows of none";
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

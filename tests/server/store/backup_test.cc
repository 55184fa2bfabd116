#include "server/store/backup.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "server/store/home.h"
#include "server/store/runs.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::Client;
using testing::run_id;
using testing::step_record;

class BackupTest : public ::testing::Test {
 protected:
  void fill(std::int64_t first, std::int64_t last) {
    std::vector<Record> records;
    for (std::int64_t n = first; n <= last; ++n) records.push_back(step_record(n, n));
    testing::put(server.store(), std::move(records));
  }
  testing::TestServer server;
  std::atomic<bool> stop = false;
};

TEST_F(BackupTest, IsADatabaseThatAServerOpens) {
  fill(1, 500);
  Client client(server.port());
  const auto begun = client.post("/api/v1/admin/backup", "");
  ASSERT_EQ(begun.status, 202) << begun.body;
  EXPECT_EQ(begun.headers.at("location"), "/api/v1/admin/backup");
  json::object status;
  ASSERT_TRUE(soon([&] {
    status = parse_json(client.get("/api/v1/admin/backup").body).value().as_object();
    return status.at("state") != "running";
  }));
  ASSERT_EQ(status.at("state"), "done") << to_text(status);
  const std::filesystem::path file = std::string(status.at("file").as_string());
  EXPECT_EQ(status.at("bytes").as_int64(), static_cast<std::int64_t>(std::filesystem::file_size(file)));
  EXPECT_EQ(file.parent_path(), server.folder() / "backups");

  testing::TemporaryFolder other;
  std::filesystem::copy_file(file, other.path() / "babelring.db");
  store::Store restored(other.path());
  auto reader = restored.reader();
  EXPECT_EQ(store::find_run(*reader, run_id)->last.step, 500);
}

TEST_F(BackupTest, IsOneStateWhileOthersWrite) {
  fill(1, 1);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (std::int64_t n = 2; !done; n += 20) fill(n, n + 19);
  });
  for (int round = 0; round < 3; ++round) {
    const auto file = server.folder() / ("copy-" + std::to_string(round));
    EXPECT_GT(store::back_up(server.store().database_file(), file, stop), 0);
    store::Database copy(file, store::Database::Mode::plain);
    EXPECT_EQ(copy.scalar("PRAGMA integrity_check"), "ok");
    // Whole batches only: the copy holds exactly the updates that the rank's row states.
    EXPECT_EQ(copy.scalar("SELECT count(*) FROM steps"), copy.scalar("SELECT last_update FROM ranks"));
    EXPECT_EQ(copy.scalar("SELECT count(*) FROM steps"), copy.scalar("SELECT sum(last - first + 1) FROM arrivals"));
  }
  done = true;
  writer.join();
}

TEST_F(BackupTest, IsMadeOneAtATime) {
  for (std::int64_t n = 1; n < 8000; n += 1000) fill(n, n + 999);
  Client first(server.port()), second(server.port());
  testing::Answer refused;
  EXPECT_EQ(first.post("/api/v1/admin/backup", "").status, 202);
  for (int i = 0; i < 50 && refused.status != 409; ++i) {  // one may be over before the next is asked for
    refused = second.post("/api/v1/admin/backup", "");
  }
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(parse_json(refused.body).value().at("code"), "backup_running");
  server.stop();  // ends the backup too
  for (const auto& entry : std::filesystem::directory_iterator(server.folder() / "backups")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp-")) << entry.path();
  }
}

TEST_F(BackupTest, IsRestoredInThePlaceOfTheDatabase) {
  fill(1, 100);
  const auto backup = server.folder() / "one.db";
  store::back_up(server.store().database_file(), backup, stop);
  fill(101, 200);
  EXPECT_THROW(store::restore(server.folder(), backup), Failure) << "a server holds the folder";
  server.stop();
  const store::Restored done = store::restore(server.folder(), backup);
  EXPECT_EQ(done.database, server.folder() / "babelring.db");
  EXPECT_EQ(done.schema, store::schema_version);
  EXPECT_EQ(done.bytes, static_cast<std::int64_t>(std::filesystem::file_size(done.database)));
  const auto newest_step = [](const std::filesystem::path& folder) {
    store::Store store(folder);
    auto reader = store.reader();
    return store::find_run(*reader, run_id)->last.step;
  };
  EXPECT_EQ(newest_step(server.folder()), 100);
  // The replaced store still exists and can be restored the same way.
  ASSERT_EQ(done.replaced.parent_path(), server.folder());
  const store::Restored undone = store::restore(server.folder(), done.replaced);
  EXPECT_EQ(newest_step(server.folder()), 200);
  EXPECT_NE(undone.replaced, done.replaced);
  EXPECT_TRUE(std::filesystem::exists(undone.replaced));
  EXPECT_TRUE(std::filesystem::exists(backup));
}

TEST_F(BackupTest, BringsBackADatabaseThatIsGone) {
  fill(1, 100);
  const auto backup = server.folder() / "one.db";
  store::back_up(server.store().database_file(), backup, stop);
  server.stop();
  std::filesystem::resize_file(server.folder() / "babelring.db", 0);
  EXPECT_THROW(store::Store(server.folder()), Failure);
  std::ofstream(server.folder() / "torn.db") << "no database";
  EXPECT_THROW(store::restore(server.folder(), server.folder() / "torn.db"), Failure);
  EXPECT_THROW(store::Store(server.folder()), Failure) << "a restore that failed leaves the folder as it was";
  store::restore(server.folder(), backup);
  server.restart();
  auto reader = server.store().reader();
  EXPECT_EQ(store::find_run(*reader, run_id)->last.step, 100);

  testing::TemporaryFolder fresh;
  EXPECT_THROW(store::restore(fresh.path(), server.folder() / "torn.db"), Failure);
  EXPECT_NO_THROW(store::Store(fresh.path())) << "a new folder is still one";
}

/// The server was killed: acknowledged rows are still in the WAL, which must go with the database.
TEST_F(BackupTest, KeepsTheWalOfTheDatabaseItReplaces) {
  fill(1, 10);
  const auto backup = server.folder() / "one.db";
  store::back_up(server.store().database_file(), backup, stop);
  fill(11, 20);
  testing::TemporaryFolder killed;
  for (const char* name : {"babelring.db", "babelring.db-wal"}) {
    std::filesystem::copy_file(server.folder() / name, killed.path() / name);
  }
  const store::Restored done = store::restore(killed.path(), backup);
  EXPECT_FALSE(std::filesystem::exists(done.database.string() + "-wal"));
  store::Database restored(done.database, store::Database::Mode::plain);
  store::Database replaced(done.replaced, store::Database::Mode::plain);
  EXPECT_EQ(restored.scalar("SELECT max(step) FROM steps"), "10");
  EXPECT_EQ(replaced.scalar("SELECT max(step) FROM steps"), "20");
}

TEST_F(BackupTest, IsNotRestoredUnlessItIsWhole) {
  fill(1, 2000);
  const auto backup = server.folder() / "one.db";
  store::back_up(server.store().database_file(), backup, stop);
  const std::string good = read_file(backup);
  server.stop();
  const std::string before = read_file(server.folder() / "babelring.db");
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    std::ofstream(backup, std::ios::binary) << bytes;
    try {
      store::restore(server.folder(), backup);
      ADD_FAILURE() << "restored in spite of: " << why;
    } catch (const Failure& failure) {
      EXPECT_NE(std::string(failure.what()).find(why), std::string::npos) << failure.what();
    }
    EXPECT_EQ(read_file(server.folder() / "babelring.db"), before);
  };
  refused("a text", "not a database");
  refused("", "not a Babelring server database");
  std::string torn = good;
  for (std::size_t at = torn.size() / 2; at < torn.size() / 2 + 20'000; ++at) torn[at] = 'x';
  refused(torn, "restore ");
  refused(good.substr(0, good.size() / 2), "restore ");
  std::string newer = good;
  newer[63] = static_cast<char>(store::schema_version + 1);  // user_version, big-endian at byte 60
  refused(newer, "use the newer program");
  EXPECT_THROW(store::restore(server.folder(), server.folder() / "babelring.db"), Failure);
  for (const auto& entry : std::filesystem::directory_iterator(server.folder())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << entry.path();
    EXPECT_FALSE(entry.path().filename().string().starts_with("babelring-replaced")) << entry.path();
  }
}

TEST_F(BackupTest, LeavesNothingWhenItFails) {
  fill(1, 100);
  const auto folder = server.folder() / "backups";
  stop = true;
  EXPECT_THROW(store::back_up(server.store().database_file(), folder / "one.db", stop), Failure);
  stop = false;
  EXPECT_THROW(store::back_up(server.folder() / "absent.db", folder / "one.db", stop), Failure);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(parse_json(Client(server.port()).get("/api/v1/admin/backup").body).value().at("state"), "none");
}

}  // namespace
}  // namespace babelring

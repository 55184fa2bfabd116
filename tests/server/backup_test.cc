#include "server/store/backup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "nmt/base/json.h"
#include "server/store/queries.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

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
  for (int i = 0; i < 1000; ++i) {
    status = parse_json(client.get("/api/v1/admin/backup").body).value().as_object();
    if (status.at("state") != "running") break;
    usleep(5000);
  }
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
    // Whole batches only: what the rank says it stored is what is there.
    EXPECT_EQ(copy.scalar("SELECT count(*) FROM steps"), copy.scalar("SELECT last_update FROM ranks"));
    EXPECT_EQ(copy.scalar("SELECT count(*) FROM steps"), copy.scalar("SELECT sum(last - first + 1) FROM arrivals"));
  }
  done = true;
  writer.join();
}

TEST_F(BackupTest, IsMadeOneAtATime) {
  for (std::int64_t n = 1; n < 8000; n += 1000) fill(n, n + 999);
  Client first(server.port()), second(server.port());
  EXPECT_EQ(first.post("/api/v1/admin/backup", "").status, 202);
  const auto refused = second.post("/api/v1/admin/backup", "");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(parse_json(refused.body).value().at("code"), "backup_running");
  server.stop();  // ends the backup too
  EXPECT_FALSE(std::filesystem::exists(server.folder() / "backups/.tmp-"));
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

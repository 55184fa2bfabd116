#include <fmt/format.h>

#include <fstream>

#include "server/artifacts/checkpoint_changes.h"
#include "server/store/checkpoints.h"
#include "server/store/runs.h"
#include "tests/server/checkpoint_fixture.h"
#include "tests/soon.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// The server's own changes of checkpoints, and rewritten checkpoints.
class OwnChangesTest : public testing::CheckpointFixture {
 protected:
  static std::string id_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  store::CheckpointRow row_of(const std::string& path) {
    auto reader = server.store().reader();
    return store::find_checkpoint(*reader, id_of(path)).value();
  }
  /// Creates an obstacle to the folder's removal.
  fs::path obstacle_of(std::int64_t update) {
    return folder_of(update).parent_path() / (".tmp-deleted-" + folder_of(update).filename().string()) / "in the way";
  }
  /// Methods and statuses of the server's own audit rows about a path, oldest first.
  std::string noted(const std::string& path) {
    auto reader = server.store().reader();
    return reader->database.scalar(
        "SELECT coalesce(group_concat(method || ' ' || status), '') FROM (SELECT * FROM audit WHERE actor = 'server' "
        "AND object = '" +
        path + "' ORDER BY entry)");
  }
  void wait_for_note(const std::string& path, const std::string& wanted) {
    soon([&] { return noted(path) == wanted; });
    EXPECT_EQ(noted(path), wanted) << path;
  }
  void keep_last(int count) {
    EXPECT_EQ(ask("PUT", run_path + "/retention", fmt::format(R"({{"keep_last":{}}})", count)).status, 200);
  }
};

TEST_F(OwnChangesTest, AuditsRemovalsByRetention) {
  const std::string first = make(10, 1), stuck = make(20, 1), last = make(30, 1);
  fs::create_directories(obstacle_of(20));
  keep_last(1);
  wait_for_note(first, "DELETE 204");
  wait_for_note(stuck, "DELETE 204,DELETE 409");  // begun, and failed
  EXPECT_EQ(object(stuck).at("removed"), false);
  EXPECT_EQ(noted(last), "");
  fs::remove_all(obstacle_of(20).parent_path());
  keep_last(1);  // the failed removal is retried
  wait_for_note(stuck, "DELETE 204,DELETE 409,DELETE 204");
}

TEST_F(OwnChangesTest, RetentionRemovesNothingWithoutItsRow) {
  const std::string first = make(10, 1);
  make(20, 1);
  server.store().write([](store::Database& database) {
    database.execute("CREATE TRIGGER closed BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'closed'); END");
  });
  EXPECT_THROW(artifacts::remove_by_retention(server.service().artifacts, row_of(first)), std::exception);
  EXPECT_TRUE(fs::exists(folder_of(10) / "weights.safetensors"));
  EXPECT_EQ(object(first).at("removed"), false);
  server.store().write([](store::Database& database) { database.execute("DROP TRIGGER closed"); });
  EXPECT_NO_THROW(artifacts::remove_by_retention(server.service().artifacts, row_of(first)));
  EXPECT_FALSE(fs::exists(folder_of(10)));
  EXPECT_EQ(noted(first), "DELETE 204");
}

TEST_F(OwnChangesTest, ARemovalThatTheNextServerTakesBackIsInTheAudit) {
  const std::string finished = make(10, 1), pinned = make(20, 1);
  for (const std::string& path : {finished, pinned}) {
    server.store().write([&](store::Database& database) { store::begin_removal(database, id_of(path)); });
  }
  std::ofstream(folder_of(20) / "pinned") << "";
  server.restart();
  wait_for_note(pinned, "DELETE 409");
  EXPECT_TRUE(soon([&] { return !fs::exists(folder_of(10)); }));
  EXPECT_EQ(noted(finished), "") << "it was noted when it began";
}

TEST_F(OwnChangesTest, ARewrittenCheckpointIsAsOldAsItsFiles) {
  const std::string path = make(10, 1);
  const std::int64_t first_ms = row_of(path).created_ms;
  EXPECT_EQ(make(10, 2), path);
  EXPECT_EQ(row_of(path).created_ms, first_ms) << "the same files, told again";
  CheckpointRecord record{.update = 10, .name = "update-00000010", .folder = folder_of(10)};
  record.write_seconds = 7;
  const auto tell = [&] { testing::put(server.store(), {testing::record_of(record, ++sequence)}); };
  record.removed = true;
  tell();
  EXPECT_EQ(row_of(path).created_ms, first_ms);
  record.removed = false;
  record.files = {{"weights.safetensors", 3, std::string(64, '1')}};
  tell();
  EXPECT_EQ(row_of(path).created_ms, first_ms + 300) << "the third record since";
  EXPECT_EQ(row_of(path).write_seconds, 7);
  record.files[0].size = 4;
  tell();
  EXPECT_EQ(row_of(path).created_ms, first_ms + 400) << "over the one that was there";
}

}  // namespace
}  // namespace babelring

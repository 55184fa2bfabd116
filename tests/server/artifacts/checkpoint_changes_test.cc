#include <fstream>

#include "base/names.h"
#include "server/store/checkpoints.h"
#include "tests/server/checkpoint_fixture.h"
#include "tests/soon.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// Recovery after a server was killed between changing a checkpoint's row and its folder.
/// (tests/faults/crash_test.py kills one there.)
class CheckpointChangesTest : public testing::CheckpointFixture {
 protected:
  void begin_removal(const std::string& path) {
    server.store().write([&](store::Database& database) { store::begin_removal(database, id_of(path)); });
  }
  static std::string id_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  fs::path doomed_of(std::int64_t update) {
    return folder_of(update).parent_path() / (".tmp-deleted-" + folder_of(update).filename().string());
  }
  std::string scalar(const std::string& query) {
    auto reader = server.store().reader();
    return reader->database.scalar(query);
  }
  void restart_and_wait(const std::string& query, const std::string& wanted) {
    server.restart();
    EXPECT_TRUE(soon([&] { return scalar(query) == wanted; })) << query << " gives " << scalar(query);
  }
};

TEST_F(CheckpointChangesTest, RemovalsThatWereBegunAreFinished) {
  const std::string untouched = make(10, 1), renamed = make(20, 1), gone = make(30, 1), pinned = make(40, 1),
                    replaced = make(50, 1), kept = make(60, 1);
  for (const std::string& path : {untouched, renamed, gone, pinned, replaced}) begin_removal(path);
  EXPECT_EQ(object(untouched).at("removed"), true) << "from the beginning";
  fs::rename(folder_of(20), doomed_of(20));
  fs::remove(doomed_of(20) / "config.yaml");
  fs::remove_all(folder_of(30));
  std::ofstream(folder_of(40) / "pinned") << "";
  std::ofstream(folder_of(50) / "SHA256SUMS") << "of another checkpoint after the same update\n";

  restart_and_wait("SELECT count(*) FROM checkpoints WHERE removing", "0");
  for (const std::string& path : {untouched, renamed, gone, replaced}) EXPECT_EQ(object(path).at("removed"), true);
  for (const std::int64_t update : {10, 20, 30}) EXPECT_FALSE(fs::exists(folder_of(update))) << update;
  EXPECT_FALSE(fs::exists(doomed_of(20)));
  EXPECT_EQ(object(pinned).at("removed"), false) << "somebody pinned it by hand meanwhile";
  EXPECT_TRUE(fs::exists(folder_of(40) / "weights.safetensors"));
  EXPECT_TRUE(fs::exists(folder_of(50) / "weights.safetensors")) << "it is another one's";
  EXPECT_EQ(object(kept).at("removed"), false);
  EXPECT_EQ(ask("GET", kept + "/SHA256SUMS").status, 200);
}

TEST_F(CheckpointChangesTest, RowsFollowTheMarksOnDisk) {
  const std::string marked = make(10, 1), unmarked = make(20, 1), away = make(30, 1), same = make(40, 1);
  std::ofstream(folder_of(10) / "pinned") << "";
  for (const std::string& path : {unmarked, away}) EXPECT_EQ(ask("PUT", path + "/pin").status, 204);
  fs::remove(folder_of(20) / "pinned");
  fs::remove_all(folder_of(30));  // as on an unmounted disk: the state is unknown
  const std::string noted =
      "SELECT group_concat(method || object) FROM (SELECT * FROM audit WHERE actor = 'server' "
      "ORDER BY entry)";
  restart_and_wait(noted, "PUT" + marked + "/pin,DELETE" + unmarked + "/pin");
  EXPECT_EQ(object(marked).at("pinned"), true);
  EXPECT_EQ(object(unmarked).at("pinned"), false);
  EXPECT_EQ(object(away).at("pinned"), true);
  EXPECT_EQ(object(same).at("pinned"), false);
}

TEST_F(CheckpointChangesTest, ARemovalThatFailsChangesNothing) {
  const std::string path = make(10, 1);
  make(20, 1);
  std::ofstream(folder_of(10) / "notes.txt") << "mine";
  EXPECT_EQ(code_of(ask("DELETE", path)), "foreign_files");
  fs::remove(folder_of(10) / "notes.txt");
  fs::create_directories(doomed_of(10) / "in the way");
  EXPECT_EQ(code_of(ask("DELETE", path)), "not_writable");
  EXPECT_EQ(object(path).at("removed"), false);
  EXPECT_EQ(scalar("SELECT count(*) FROM checkpoints WHERE removing"), "0");
  EXPECT_TRUE(fs::exists(folder_of(10) / "weights.safetensors"));
  fs::remove_all(doomed_of(10));
  EXPECT_EQ(code_of(ask("DELETE", path)), "");
}

TEST_F(CheckpointChangesTest, WeightsInInt8GoWithTheirCheckpoint) {
  const std::string path = make(10, 1);
  make(20, 1);
  std::ofstream(folder_of(10) / quantized_file_name) << "made by a translation";
  std::ofstream(folder_of(10) / (std::string(quantized_file_name) + ".tmp.7")) << "half of it";
  EXPECT_EQ(code_of(ask("DELETE", path)), "");
  EXPECT_FALSE(fs::exists(folder_of(10)));
}

TEST_F(CheckpointChangesTest, AManifestHasItsOrigin) {
  const std::string path = make(10, 1);
  const json::object plain = object(path);
  EXPECT_TRUE(plain.at("version").is_null() && plain.at("world_size").is_null());
  EXPECT_EQ(plain.at("config_sha256").as_string().size(), 64u);
  CheckpointRecord again{.update = 10, .name = "update-00000010"};
  again.version = "0.2.0";
  again.world_size = 4;
  testing::put(server.store(), {testing::record_of(again, ++sequence)});
  EXPECT_EQ(object(path).at("version"), "0.2.0");
  EXPECT_EQ(object(path).at("world_size"), 4);
}

}  // namespace
}  // namespace babelring

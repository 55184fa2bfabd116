#include "server/store/home.h"

#include "server/store/checkpoints.h"
#include "tests/server/store/store_fixture.h"

namespace babelring::store {
namespace {

namespace fs = std::filesystem;

/// A data folder that moves.
class HomeTest : public StoreTest {
 protected:
  void SetUp() override { open_in("old"); }
  void open_in(const std::string& name) {
    store.reset();
    data = folder.path() / name;
    store = std::make_unique<Store>(data);
    follow({data});
  }
  void follow(const std::vector<fs::path>& roots) {
    store->write([&](Database& database) { follow_data_folder(database, data, roots); });
  }
  /// A record of the checkpoint "update-N" in `in`.
  void say_checkpoint(std::int64_t update, const fs::path& in) {
    CheckpointRecord checkpoint;
    checkpoint.update = update;
    checkpoint.name = "update-" + std::to_string(update);
    checkpoint.folder = in / checkpoint.name;
    put(*store, {record_of(checkpoint, ++sequence)});
  }
  std::vector<std::string> folders() {
    auto reader = store->reader();
    return reader->database.prepare("SELECT folder FROM checkpoints ORDER BY step").all<std::string>();
  }
  void move_to(const std::string& name, bool copy = false) {
    store.reset();
    if (copy) {
      fs::copy(data, folder.path() / name, fs::copy_options::recursive);
    } else {
      fs::rename(data, folder.path() / name);
    }
  }
  std::string message_of(const std::string& move) {
    try {
      return move_folder(data, move);
    } catch (const Failure& failure) {
      return failure.what();
    }
  }

  fs::path data;
  std::int64_t sequence = 0;
};

TEST_F(HomeTest, PathsBelowADataFolderThatMovedFollowItAlsoThoseOfLaterRecords) {
  const fs::path elsewhere = folder.path() / "elsewhere";
  const fs::path old = data;
  say_checkpoint(1, old / "runs");
  say_checkpoint(2, elsewhere);
  move_to("new");
  open_in("new");
  EXPECT_EQ(folders(), (std::vector<std::string>{data / "runs" / "update-1", elsewhere / "update-2"}));
  say_checkpoint(3, old / "runs");  // from a spool
  say_checkpoint(4, old.string() + "er");
  EXPECT_EQ(folders()[2], data / "runs" / "update-3");
  EXPECT_EQ(folders()[3], old.string() + "er/update-4") << "another folder";
  move_to("old");
  open_in("old");
  EXPECT_EQ(folders()[0], old / "runs" / "update-1") << "it moved back";
  say_checkpoint(5, old / "runs");
  EXPECT_EQ(folders()[4], old / "runs" / "update-5");
}

TEST_F(HomeTest, ACopyWithItsRunsIsAMoveAndADatabaseAloneIsNone) {
  const fs::path old = data;
  fs::create_directory(data / "runs");
  say_checkpoint(1, data / "runs");
  move_to("copy", true);
  open_in("copy");
  EXPECT_EQ(folders()[0], data / "runs" / "update-1");
  fs::remove(data / "runs");
  move_to("restored", true);
  const fs::path before = data;
  open_in("restored");
  EXPECT_EQ(folders()[0], before / "runs" / "update-1");
}

TEST_F(HomeTest, AnOldDataFolderThatIsStillARootKeepsItsPaths) {
  const fs::path old = data;
  fs::create_directory(data / "runs");
  say_checkpoint(1, data / "runs");
  move_to("copy", true);
  store.reset();
  data = folder.path() / "copy";
  store = std::make_unique<Store>(data);
  follow({data, old});
  EXPECT_EQ(folders()[0], old / "runs" / "update-1");
}

TEST_F(HomeTest, TheCommandMovesARootAndRefusesWhatItCannotMean) {
  const std::string from = folder.path() / "disk", to = folder.path() / "mnt";
  fs::create_directory(to);
  say_checkpoint(1, from);
  const std::string taken = message_of(from + "=" + to);
  EXPECT_NE(taken.find("in use by another server"), std::string::npos) << taken;
  store.reset();
  EXPECT_EQ(message_of("disk=mnt"), "--moved: expected /OLD=/NEW, two absolute paths, found 'disk=mnt'");
  EXPECT_EQ(message_of(from + "=" + to + "x"), "--moved: " + to + "x is no folder");
  EXPECT_EQ(message_of(to + "/a=" + to), "--moved: " + to + "/a and " + to + " are one inside the other");
  try {
    move_folder(folder.path() / "absent", from + "=" + to);
    FAIL() << "moved paths of no database";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.what(), "data folder " + (folder.path() / "absent").string() + " does not exist");
  }
  EXPECT_FALSE(fs::exists(folder.path() / "absent"));
  EXPECT_EQ(message_of("/nowhere=" + to),
            "--moved: no stored path lies below /nowhere; the newest checkpoint's is " + from + "/update-1");
  EXPECT_EQ(message_of(from + "/=" + to + "/"),
            "1 checkpoints, 0 runs and 0 artifacts below " + from + " are now looked for below " + to);
  open_in("old");
  EXPECT_EQ(folders()[0], to + "/update-1");
  say_checkpoint(2, from);
  EXPECT_EQ(folders()[1], to + "/update-2") << "workers may see the folder where it was";
}

TEST_F(HomeTest, KnowsTheWorldOfTheLastServer) {
  const auto exchange = [&](const std::string& world) {
    return store->write([&](Database& database) { return exchange_world(database, world); });
  };
  EXPECT_EQ(exchange("a"), "");
  EXPECT_EQ(exchange("b"), "a");
  EXPECT_FALSE(store->ended_cleanly()) << "nobody was here before";
  open_in("old");
  EXPECT_TRUE(store->ended_cleanly());
  EXPECT_EQ(exchange("b"), "b");
}

}  // namespace
}  // namespace babelring::store

#include "nmt/checkpoint/store.h"
#include "base/names.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/failure.h"
#include "tests/nmt/checkpoint/store_fixture.h"
#include "tests/worker/log_capture.h"

namespace {
bool links_work = true;
}

/// In place of the C library's, so that a file system can be as one without symbolic links.
extern "C" int symlink(const char* target, const char* link) noexcept {
  if (links_work) return symlinkat(target, AT_FDCWD, link);
  errno = EPERM;
  return -1;
}

namespace babelring {
namespace {

struct WithoutLinks {
  WithoutLinks() { links_work = false; }
  ~WithoutLinks() { links_work = true; }
  WithoutLinks(const WithoutLinks&) = delete;
  WithoutLinks& operator=(const WithoutLinks&) = delete;
};

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST_F(StoreTest, RoundTrip) {
  CheckpointStore store(folder_, 3);
  EXPECT_FALSE(store.latest().has_value());
  const CheckpointRecord saved = store.save(content(1000)).saved;
  EXPECT_EQ(saved.name, "update-00001000");
  EXPECT_EQ(saved.folder, (folder_ / saved.name).string());
  EXPECT_EQ(saved.sacrebleu, 30.25);
  EXPECT_TRUE(std::isnan(saved.loss));
  EXPECT_GT(saved.write_seconds, 0);
  std::vector<std::string> files;
  for (const CheckpointFile& file : saved.files) {
    files.push_back(file.name);
    EXPECT_EQ(file.size, static_cast<std::int64_t>(fs::file_size(folder_ / saved.name / file.name)));
    EXPECT_EQ(file.sha256, sha256_file(folder_ / saved.name / file.name));
  }
  EXPECT_THAT(files,
              ElementsAre("weights.safetensors", "optimizer.safetensors", "spm.model", "config.yaml", "state.json"));

  const auto latest = store.latest();
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->update, 1000);
  EXPECT_EQ(to_text(latest->state), R"({"epoch":1.5,"seed":7})");
  EXPECT_EQ(latest->sacrebleu, 30.25);
  EXPECT_TRUE(std::isnan(latest->loss));
  const TensorFiles weights = latest->weights();
  EXPECT_EQ(std::memcmp(weights.tensor("w", {40, 100}).data, weights_.data(), 16000), 0);
  EXPECT_EQ(latest->optimizer().tensor("w.m").shape, Shape({4000}));
  EXPECT_EQ(read_file(latest->folder / "spm.model"), "spm");
  EXPECT_EQ(read_file(latest->folder / "config.yaml"), "a: 1\n");
  EXPECT_EQ(record_of(*latest).files.size(), saved.files.size());
}

TEST_F(StoreTest, KeepsTheNewestAndTheBest) {
  CheckpointStore store(folder_, 2);
  EXPECT_TRUE(store.save(content(100, true)).removed.empty());
  EXPECT_TRUE(store.save(content(200)).removed.empty());
  EXPECT_TRUE(store.save(content(300)).removed.empty()) << "100 is the best";
  const auto removed = store.save(content(400)).removed;
  ASSERT_EQ(removed.size(), 1U);
  EXPECT_EQ(removed[0].name, "update-00000200");
  EXPECT_EQ(removed[0].update, 200);
  EXPECT_TRUE(removed[0].removed);
  EXPECT_THAT(names(store.list()), ElementsAre("update-00000100", "update-00000300", "update-00000400"));
  EXPECT_EQ(best(), "update-00000100");
  const auto later = store.save(content(500, true)).removed;
  EXPECT_EQ(later.size(), 2U) << "300 and the former best";
  EXPECT_EQ(best(), "update-00000500") << "relative: the folder may be moved";
}

TEST_F(StoreTest, FailedRemovalDoesNotBlockOthers) {
  CheckpointStore store(folder_, 1, false);
  store.save(content(1));
  // Like an open file on NFS, which stays when it is removed, and its folder with it.
  const fs::path stuck = folder_ / checkpoint_name(1) / "held";
  fs::create_directory(stuck);
  if (::mount("tmpfs", stuck.c_str(), "tmpfs", 0, "size=4k") != 0) {
    GTEST_SKIP() << "may not mount a tmpfs here: " << std::generic_category().message(errno);
  }
  store.save(content(2));
  const auto removed = store.save(content(3)).removed;
  fs::path mounted;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (fs::exists(entry.path() / "held")) mounted = entry.path() / "held";
  }
  EXPECT_EQ(::umount(mounted.c_str()), 0);
  ASSERT_EQ(removed.size(), 1U);
  EXPECT_EQ(removed[0].update, 2);
}

TEST_F(StoreTest, WithoutKeepBestOnlyTheNewestAreKept) {
  CheckpointStore store(folder_, 0, false);
  store.save(content(1, true));
  EXPECT_EQ(store.save(content(2)).removed.size(), 1U);
  EXPECT_THAT(names(store.list()), ElementsAre("update-00000002"));
  EXPECT_FALSE(fs::exists(folder_ / "best"));
}

TEST_F(StoreTest, PinnedCheckpointIsKeptWhenRewritten) {
  CheckpointStore store(folder_, 1, false);
  store.save(content(1));
  write_file_atomically(folder_ / checkpoint_name(1) / "pinned", "");
  EXPECT_TRUE(store.save(content(2)).removed.empty());
  store.save(content(1));  // a resumed run reaches the same update again
  EXPECT_EQ(store.save(content(3)).removed.size(), 1U);
  EXPECT_THAT(names(store.list()), ElementsAre("update-00000001", "update-00000003"));
  EXPECT_TRUE(load_checkpoint(folder_ / checkpoint_name(1)).ok());
  fs::remove(folder_ / checkpoint_name(1) / "pinned");
  store.save(content(4));
  EXPECT_THAT(names(store.list()), ElementsAre("update-00000004"));
}

TEST_F(StoreTest, SameUpdateIsReplaced) {
  CheckpointStore store(folder_, 2);
  store.save(content(5));
  weights_[0] = 99;
  store.save(content(5));
  EXPECT_EQ(*store.latest()->weights().tensor("w").as<float>(), 99);
  EXPECT_EQ(entries(folder_), 1U);
}

TEST_F(StoreTest, ReplacementIsAtomic) {
  for (const char* name : {"one", "other"}) fs::create_directory(base_ / name);
  if (::renameat2(AT_FDCWD, (base_ / "one").c_str(), AT_FDCWD, (base_ / "other").c_str(), RENAME_EXCHANGE) != 0) {
    GTEST_SKIP() << "this file system cannot exchange two folders: " << std::generic_category().message(errno);
  }
  CheckpointStore store(folder_, 2);
  store.save(content(5));
  const fs::path saved = folder_ / checkpoint_name(5);
  std::atomic<bool> done = false;
  std::atomic<int> checks = 0, missing = 0;
  std::thread watcher([&] {
    for (; !done; ++checks) missing += fs::exists(saved / "state.json") ? 0 : 1;
  });
  for (int again = 0; again < 50 || checks < 50; ++again) store.save(content(5));
  done = true;
  watcher.join();
  EXPECT_EQ(missing, 0);
}

TEST_F(StoreTest, ListIsOrderedByUpdate) {
  CheckpointStore store(folder_, 10);
  for (const std::int64_t update : {100000000, 99999999, 5}) store.save(content(update));
  fs::create_directory(folder_ / "update-x");
  EXPECT_THAT(names(store.list()), ElementsAre("update-00000005", "update-99999999", "update-100000000"));
}

TEST_F(StoreTest, LeftoversAreRemovedAtStart) {
  {
    CheckpointStore store(folder_, 2);
    store.save(content(1));
  }
  fs::create_directories(folder_ / ".tmp-update-00000002" / "deep");
  std::ofstream(folder_ / ".tmp-best") << "x";
  fs::create_directories(folder_ / fmt::format(".tmp-{}", make_id('x')));
  fs::create_directories(folder_ / ".tmp-notes");  // no name of this program
  CheckpointStore store(folder_, 2);
  EXPECT_EQ(entries(folder_), 2U);
  EXPECT_TRUE(fs::exists(folder_ / ".tmp-notes"));
  EXPECT_EQ(store.latest()->update, 1);
}

/// The process whose run was taken over may be removing an old checkpoint, whose files it finds by its open folder.
TEST_F(StoreTest, LeftoversAreRemovedWhileTheirWriterRemovesThem) {
  const fs::path leftover = folder_ / ".tmp-removed-update-00000002";
  for (int round = 0; round < 20; ++round) {
    fs::create_directories(leftover);
    for (int file = 0; file < 200; ++file) std::ofstream(leftover / std::to_string(file)) << "x";
    const int open_folder = ::open(leftover.c_str(), O_DIRECTORY | O_RDONLY);
    std::thread writer([open_folder] {
      for (int file = 199; file >= 0; --file) ::unlinkat(open_folder, std::to_string(file).c_str(), 0);
      ::close(open_folder);
    });
    EXPECT_NO_THROW(CheckpointStore(folder_, 1, false)) << "round " << round;
    writer.join();
    EXPECT_EQ(entries(folder_), 0U);
  }
}

TEST_F(StoreTest, LeftoversAreRemovedWhileTheirWriterGoesOn) {
  const fs::path leftover = folder_ / ".tmp-update-00000002";
  fs::create_directories(leftover);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int file = 0; !done; ++file) {
      std::error_code ignored;
      fs::create_directory(leftover, ignored);
      std::ofstream(leftover / std::to_string(file)) << "x";
    }
  });
  for (int start = 0; start < 50; ++start) EXPECT_NO_THROW(CheckpointStore(folder_, 2));
  done = true;
  writer.join();
}

/// The run was taken over while a checkpoint was written; the new owner writes one of the same update.
TEST_F(StoreTest, AWriterThatHasLostTheRunHarmsNoOther) {
  CheckpointStore old(folder_, 2);
  const auto lost = [&] {
    CheckpointStore taker(folder_, 2);
    taker.save(content(2));
    throw Failure("lost");
  };
  EXPECT_THAT([&] { old.save(content(2), lost); }, ThrowsMessage<Failure>("lost"));
  EXPECT_EQ(entries(folder_), 1U);
  EXPECT_EQ(CheckpointStore(folder_, 2).latest()->update, 2);
  CheckpointContent bad = content(3);
  bad.copies = {{"spm.model", base_ / "absent"}};
  EXPECT_THAT([&] { old.save(bad, lost); }, ThrowsMessage<Failure>("lost")) << "not that a file is absent";
}

TEST_F(StoreTest, DamagedCheckpointsAreSkippedAndNotCounted) {
  CheckpointStore store(folder_, 2);
  store.save(content(1));
  store.save(content(2));
  fs::resize_file(folder_ / "update-00000002" / "weights.safetensors", 100);
  EXPECT_EQ(store.latest()->update, 1);
  EXPECT_TRUE(store.save(content(3)).removed.empty()) << "1 and 3 are the two newest undamaged ones";
  fs::remove(folder_ / "update-00000003" / "state.json");
  fs::remove(folder_ / "update-00000001" / "spm.model");
  EXPECT_THROW(store.latest(), Failure);
}

TEST_F(StoreTest, IfAllAreDamagedEachIsNamed) {
  CheckpointStore store(folder_, 3);
  for (const std::int64_t update : {1, 2, 3}) store.save(content(update));
  fs::resize_file(folder_ / "update-00000001" / "weights.safetensors", 100);
  std::fstream(folder_ / "update-00000002" / "weights.safetensors", std::ios::in | std::ios::out).seekp(5000).put('x');
  fs::remove(folder_ / "update-00000003" / "state.json");
  EXPECT_THAT([&] { store.latest(); },
              ThrowsMessage<Failure>(AllOf(HasSubstr("none of 3 can be used"), HasSubstr("--from-scratch"),
                                           HasSubstr("update-00000003/state.json: No such file or directory"),
                                           HasSubstr("update-00000002/weights.safetensors: SHA-256 is "),
                                           HasSubstr("update-00000001/weights.safetensors: 100 bytes, expected "))));

  const auto moved = store.move_all_aside();
  EXPECT_EQ(moved.size(), 3U);
  EXPECT_FALSE(store.latest().has_value());
  for (const char* name : {"update-00000001", "update-00000002", "update-00000003"}) {
    EXPECT_TRUE(fs::exists(folder_ / "aside" / name));
  }
}

TEST_F(StoreTest, UnreadableFolderIsNotEmpty) {
  CheckpointStore store(folder_, 3);
  store.save(content(1));
  fs::rename(folder_ / "update-00000001" / "state.json", base_ / "kept");
  fs::create_directory(folder_ / "update-00000001" / "state.json");  // unreadable even for root
  EXPECT_THAT([&] { store.latest(); }, ThrowsMessage<Failure>(HasSubstr("state.json: Is a directory")));
  fs::remove_all(folder_);
  write_file_atomically(folder_, "");
  EXPECT_THAT([&] { store.latest(); }, ThrowsMessage<Failure>(HasSubstr("Not a directory")));
}

TEST_F(StoreTest, CheckpointWithFlippedBitDoesNotCountOnceFound) {
  CheckpointStore store(folder_, 2);
  store.save(content(1));
  store.save(content(2));
  std::fstream(folder_ / "update-00000002" / "weights.safetensors", std::ios::in | std::ios::out).seekp(5000).put('x');
  ASSERT_EQ(store.latest()->update, 1);
  EXPECT_TRUE(store.save(content(3)).removed.empty()) << "1 and 3 are the two newest undamaged ones";
  const auto removed = store.save(content(4)).removed;
  EXPECT_EQ(removed.size(), 2U) << "the damaged one and 1, because two newer ones exist";
  EXPECT_THAT(names(store.list()), ElementsAre("update-00000003", "update-00000004"));
}

TEST_F(StoreTest, NonFiniteWeightsAreNotWritten) {
  CheckpointStore store(folder_, 2);
  store.save(content(1, true));
  weights_[250] = NAN;
  EXPECT_THAT([&] { store.save(content(2, true)); }, ThrowsMessage<Failure>("weights are not finite: w[2, 50] is nan"));
  EXPECT_THAT(names(store.list()), ElementsAre("update-00000001"));
  EXPECT_EQ(best(), "update-00000001");
}

TEST_F(StoreTest, BestRequiresAFiniteLoss) {
  CheckpointStore store(folder_, 2);
  CheckpointContent dead = content(1, true);
  dead.sacrebleu = 0;
  for (const double loss : {NAN, INFINITY}) {
    dead.loss = loss;
    EXPECT_FALSE(store.save(dead).saved.best);
    EXPECT_FALSE(fs::exists(folder_ / "best"));
  }
}

TEST_F(StoreTest, FailedWriteKeepsOlderCheckpoints) {
  CheckpointStore store(folder_, 1);
  store.save(content(1, true));
  CheckpointContent bad = content(2, true);
  bad.copies = {{"spm.model", base_ / "absent"}};
  EXPECT_THAT([&] { store.save(bad); }, ThrowsMessage<Failure>(HasSubstr("absent: No such file or directory")));
  EXPECT_EQ(store.latest()->update, 1);
  EXPECT_EQ(best(), "update-00000001");
}

TEST_F(StoreTest, FullDiskKeepsOlderCheckpoints) {
  fs::create_directories(folder_);
  if (::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=128k") != 0) {
    GTEST_SKIP() << "may not mount a small tmpfs here: " << std::generic_category().message(errno);
  }
  {
    CheckpointStore store(folder_, 5);
    store.save(content(1));
    store.save(content(2));
    EXPECT_THAT([&] { store.save(content(3)); }, ThrowsMessage<Failure>(HasSubstr("No space left on device")));
    EXPECT_THAT(names(store.list()), ElementsAre("update-00000001", "update-00000002"));
    EXPECT_EQ(store.latest()->update, 2);
    EXPECT_EQ(entries(folder_), 2U);
  }
  EXPECT_EQ(::umount(folder_.c_str()), 0);
}

TEST_F(StoreTest, AFolderThatACopyMadeOfTheMarkIsReplaced) {
  CheckpointStore(folder_, 1).save(content(1, true));
  fs::remove(folder_ / "best");
  fs::copy(folder_ / checkpoint_name(1), folder_ / "best", fs::copy_options::recursive);
  CheckpointStore store(folder_, 1);
  EXPECT_EQ(best_checkpoint_name(folder_), "update-00000001");
  EXPECT_TRUE(store.save(content(2)).removed.empty()) << "1 is the best";
  EXPECT_EQ(find_checkpoint(folder_), folder_ / "best");
  EXPECT_TRUE(store.save(content(3, true)).saved.best);
  EXPECT_EQ(best(), "update-00000003");
  EXPECT_EQ(entries(folder_), 2U) << "nothing of the folder is left";
}

TEST_F(StoreTest, AFolderInPlaceOfTheMarkIsNeverLost) {
  CheckpointStore(folder_, 1).save(content(1, true));
  fs::remove(folder_ / "best");
  fs::rename(folder_ / checkpoint_name(1), folder_ / "best");  // the copy of a checkpoint that is not here
  CheckpointStore store(folder_, 1);
  EXPECT_EQ(find_checkpoint(folder_), folder_ / "best");
  store.save(content(2));
  EXPECT_EQ(best_checkpoint_name(folder_), "best");
  store.save(content(3, true));
  EXPECT_EQ(best(), "update-00000003");
  EXPECT_EQ(load_checkpoint(folder_ / "aside" / "best").value().update, 1);
  fs::remove(folder_ / "best");
  fs::create_directory(folder_ / "best");  // somebody's own
  write_file_atomically(folder_ / "best" / "notes", "mine");
  store.save(content(4, true));
  EXPECT_EQ(best(), "update-00000004");
  EXPECT_EQ(read_file(folder_ / "aside" / "best-2" / "notes"), "mine");
}

TEST_F(StoreTest, WithoutLinksAFileNamesTheBest) {
  const WithoutLinks without;
  CheckpointStore store(folder_, 1);
  EXPECT_TRUE(store.save(content(1, true)).saved.best);
  EXPECT_EQ(read_file(folder_ / "best"), "update-00000001\n");
  EXPECT_TRUE(store.save(content(2)).removed.empty()) << "1 is the best";
  for (const fs::path& given : {folder_, folder_ / "best"}) {
    EXPECT_EQ(find_checkpoint(given), folder_ / checkpoint_name(1));
  }
  EXPECT_EQ(store.save(content(3, true)).removed.size(), 2U);
  EXPECT_EQ(best_checkpoint_name(folder_), "update-00000003");
  EXPECT_EQ(store.move_aside_after(2).size(), 1U);
  EXPECT_FALSE(fs::exists(folder_ / "best"));
}

TEST_F(StoreTest, TrainingThatGoesBackTakesTheMarkAway) {
  for (const bool sibling : {true, false}) {
    fs::remove_all(folder_);
    CheckpointStore store(folder_, 3);
    store.save(content(1));
    store.save(content(2, true));
    fs::remove(folder_ / "best");
    fs::copy(folder_ / checkpoint_name(2), folder_ / "best", fs::copy_options::recursive);
    if (!sibling) fs::remove_all(folder_ / checkpoint_name(2));
    store.move_aside_after(1);
    EXPECT_EQ(find_checkpoint(folder_), folder_ / checkpoint_name(1));
    EXPECT_TRUE(fs::exists(folder_ / "aside" / (sibling ? checkpoint_name(2) : "best")));
  }
}

TEST_F(StoreTest, ACheckpointThatCannotBeMarkedIsStillWrittenAndKept) {
  CheckpointStore store(folder_, 1);
  store.save(content(1));
  write_file_atomically(folder_ / "aside", "");  // where what is in the place of the mark would go
  fs::create_directory(folder_ / "best");
  LogCapture log;
  EXPECT_TRUE(store.save(content(2, true)).saved.best);
  EXPECT_THAT(log.text(), AllOf(HasSubstr("checkpoint update-00000002 is written, but is not marked as the best"),
                                HasSubstr("Not a directory")));
  EXPECT_TRUE(store.save(content(3)).removed.empty()) << "2 is the best, though not marked";
  EXPECT_THAT(names(store.list()), ElementsAre("update-00000002", "update-00000003"));
}

TEST_F(StoreTest, FailsIfTheFolderCannotBeCreated) {
  EXPECT_THAT([&] { CheckpointStore store(base_ / "source.model" / "x", 1); },
              ThrowsMessage<Failure>(HasSubstr("Not a directory")));
}

}  // namespace
}  // namespace babelring

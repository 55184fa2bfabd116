#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "nmt/checkpoint/checkpoint.h"

namespace babelring {

/// A new, empty folder of a checkpoint store, for writing files before it is renamed into place. The destructor removes
/// whatever is at its path.
class ScratchFolder {
 public:
  /// Throws filesystem_error, also if there is something at the path: its name must be new.
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {
    if (std::filesystem::create_directory(path_)) return;
    throw std::filesystem::filesystem_error("", path_, std::make_error_code(std::errc::file_exists));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// All checkpoint folders in a folder, including damaged ones, oldest first. Throws filesystem_error.
std::vector<std::filesystem::path> checkpoint_folders(const std::filesystem::path& folder);

/// Resolves a user's path to a checkpoint folder. A checkpoint folder is returned as is. For a run's folder, its
/// checkpoints/ or a file `best` there, returns the best checkpoint (base/names.h), or the newest if there
/// is no best; logs a warning if the best is marked but absent. Throws Failure if there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& given);
/// load_checkpoint() for a user's path; the Error also says that there is none.
Result<Checkpoint> find_and_load_checkpoint(const std::filesystem::path& given, Verify verify = Verify::digests);

/// The checkpoints of one run, in one folder. A checkpoint is written under a temporary name, fsynced and renamed, and
/// its parent folder is fsynced, so it is either complete or absent. Only one process may publish checkpoints in the
/// folder; one whose guard refuses harms no other. Not thread-safe.
class CheckpointStore {
 public:
  /// Creates the folder and removes leftovers of interrupted writes. Retention keeps the newest `keep_last` (at least
  /// 1) undamaged checkpoints and, with `keep_best`, the one last saved as best. A checkpoint with a file `pinned` in
  /// its folder is never removed. Throws Failure if the folder cannot be used.
  CheckpointStore(const std::filesystem::path& folder, std::int64_t keep_last, bool keep_best = true);

  struct Saved {
    CheckpointRecord saved;
    std::vector<CheckpointRecord> removed;  // removed by retention; `removed` is set
  };
  /// Writes a checkpoint, replacing one of the same update. If writing fails (for example on a full disk), throws
  /// Failure and leaves older checkpoints unchanged. A failure after the checkpoint has become visible, to mark it as
  /// the best or to remove old ones, is only logged. `guard`, if set, is called after all files are written, or after
  /// writing them has failed, and before the checkpoint becomes visible; an exception from it cancels the save and
  /// replaces the Failure.
  Saved save(const CheckpointContent& content, const std::function<void()>& guard = {}) {
    return complete(content, begin(content.update), guard);
  }
  /// save() in two steps. In the new folder that begin() makes, hosts write content.shards; complete() does the rest.
  std::unique_ptr<ScratchFolder> begin(std::int64_t update) const;
  Saved complete(const CheckpointContent& content, std::unique_ptr<ScratchFolder> unfinished,
                 const std::function<void()>& guard);

  /// Moves checkpoints of updates after `update` into the subfolder `aside`, where they are ignored, so that training
  /// continues from an older one. If the best checkpoint is moved, there is no best one until the next. Returns the
  /// moved checkpoints' records with `removed` set. Throws Failure.
  std::vector<CheckpointRecord> move_aside_after(std::int64_t update);
  /// Moves all checkpoints aside, including damaged ones, so that training starts over.
  std::vector<CheckpointRecord> move_all_aside() { return move_aside_after(-1); }

  /// The newest undamaged checkpoint; none if the folder has no checkpoints. Damaged ones are skipped with a warning in
  /// the log and no longer count for retention. Throws Failure with all reasons if every checkpoint is damaged or
  /// unreadable.
  std::optional<Checkpoint> latest();
  std::vector<std::filesystem::path> list() const { return checkpoint_folders(folder_); }
  /// Throws UsageFailure if the folder has no checkpoint of this update or a later one, damaged or moved aside or not:
  /// then it is not the folder that the run has trained in. 0: any folder will do.
  void require(std::int64_t update) const;

 private:
  void publish(const std::filesystem::path& temporary, const std::filesystem::path& target) const;
  void mark_best(const std::string& name);
  void apply_retention(const std::filesystem::path& newest, std::vector<CheckpointRecord>& removed) const;

  std::filesystem::path folder_;  // absolute
  std::int64_t keep_last_;
  bool keep_best_;
  std::string unmarked_best_;      // name of the best checkpoint if it could not be marked
  std::set<std::string> damaged_;  // damaged checkpoints found by latest(); retention itself checks only file sizes
};

}  // namespace babelring

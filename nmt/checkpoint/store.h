#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nmt/checkpoint/checkpoint.h"

namespace babelring {

/// The folders of checkpoints in a folder, damaged ones too, oldest first. Throws filesystem_error.
std::vector<std::filesystem::path> checkpoint_folders(const std::filesystem::path& folder);

/// The checkpoints of one run in one folder. A checkpoint is written under a temporary name, fsynced, renamed, and the
/// folder fsynced: it is there completely or not at all. One process at a time; not thread-safe.
class CheckpointStore {
 public:
  /// Makes the folder and removes what interrupted writes left. Keeps the newest `keep_last` (at least 1) undamaged
  /// checkpoints and, with `keep_best`, the one last saved as best; one with a file `pinned` in its folder is never
  /// removed. Throws Failure if the folder cannot be used.
  CheckpointStore(const std::filesystem::path& folder, std::int64_t keep_last, bool keep_best = true);

  struct Saved {
    CheckpointRecord saved;
    std::vector<CheckpointRecord> removed;  // by retention, `removed` set
  };
  /// Writes a checkpoint; one of the same update is replaced. On a full disk or another failure to write, throws
  /// Failure and leaves the older ones as they were. A failure to remove old ones is logged. `guard`, if there is one,
  /// is called when everything is written and before it becomes visible; what it throws ends the save.
  Saved save(const CheckpointContent& content, const std::function<void()>& guard = {});

  /// Moves checkpoints of later updates into the folder `aside`, where no one looks for them: training goes on from an
  /// older one. If one of them was the best, there is none until the next. Returns their records, `removed` set. Throws
  /// Failure.
  std::vector<CheckpointRecord> set_aside_after(std::int64_t update) const;
  /// The same with all checkpoints, damaged ones too: training begins anew.
  std::vector<CheckpointRecord> set_all_aside() const { return set_aside_after(-1); }

  /// The newest undamaged checkpoint; none if there is no checkpoint. Damaged ones are skipped with a logged warning
  /// naming file and reason, and from then on take no place in retention. Throws Failure with all reasons if every
  /// checkpoint is damaged or cannot be read.
  std::optional<Checkpoint> latest();
  std::vector<std::filesystem::path> list() const { return checkpoint_folders(folder_); }

 private:
  void publish(const std::filesystem::path& temporary, const std::filesystem::path& target) const;
  void mark_best(const std::string& name) const;
  std::vector<CheckpointRecord> apply_retention(const std::filesystem::path& newest) const;

  std::filesystem::path folder_;  // absolute
  std::int64_t keep_last_;
  bool keep_best_;
  std::set<std::string> damaged_;  // names of those that latest() found damaged: retention only looks at sizes
};

}  // namespace babelring

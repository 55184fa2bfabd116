#pragma once

#include <filesystem>
#include <string>

#include "base/files.h"

namespace babelring {

/// A folder for unfinished files, PARENT/NAME.part-ID, that only this object writes to.
///
/// Several processes cannot work on the same NAME: each locks the file PARENT/.NAME.lock (flock(2), so the lock ends
/// with the process), which is removed with the object. With the lock held, folders NAME.part-… that an interrupted
/// process left are removed if they have this class's marker file; nothing else is. Where the file system has no locks,
/// a warning says so, and leftovers stay.
class WorkFolder {
 public:
  /// A file in each such folder; its content names what the folder is for.
  static constexpr const char* marker_name = ".babelring-work";

  /// Creates `parent` if it is absent. If `resume` is not empty, a leftover whose marker holds the same text is taken
  /// over with its content instead of being removed. Throws UsageFailure naming the process if another one works on
  /// NAME, Failure if a file cannot be made.
  WorkFolder(const std::filesystem::path& parent, const std::string& name, const std::string& resume = "");
  /// Removes the folder (unless `keep` or publish() was called), the lock, and those parents that the constructor made
  /// and that are empty.
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  /// The folder stays when the object goes, for a later resume.
  void keep() { removes_ = false; }
  /// Removes the marker and renames the folder to `target` durably. Throws Failure if there is something already.
  void publish(const std::filesystem::path& target);

 private:
  void lock(const std::filesystem::path& file);
  void clear_leftovers(const std::string& prefix, const std::string& resume);
  void remove() const noexcept;

  std::filesystem::path parent_, made_, path_, lock_file_;  // made_: the topmost folder that did not exist before
  FileDescriptor lock_;                                     // of lock_file_; none if the file system has no locks
  bool removes_ = true;
};

}  // namespace babelring

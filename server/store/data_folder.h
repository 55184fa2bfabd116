#pragma once

#include <filesystem>

namespace babelring::store {

/// The server's data folder, held by this process alone through a lock file, which also says whether the last owner
/// shut down cleanly.
class DataFolder {
 public:
  /// Creates the folder if needed, and removes what a killed owner left unfinished in it. Throws Failure if another
  /// process holds it, or if it is on a network file system (SQLite's WAL needs shared memory and honest locks).
  explicit DataFolder(std::filesystem::path folder);
  /// Notes a clean shutdown if mark_clean() was called, and releases the lock.
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  /// Path of the database, whether it exists or not.
  std::filesystem::path database() const { return folder_ / "babelring.db"; }
  /// The previous owner ended without mark_clean(): the database should be checked.
  bool was_unclean() const { return was_unclean_; }
  void mark_clean() { clean_ = true; }
  /// Bytes that an unprivileged process can still write to this file system.
  std::uintmax_t free_bytes() const;

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  bool was_unclean_ = false, clean_ = false;
};

}  // namespace babelring::store

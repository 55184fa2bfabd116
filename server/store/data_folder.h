#pragma once

#include <filesystem>

namespace babelring::store {

/// The server's data folder, held by this process alone: an exclusive lock file, and a note in it whether the last
/// owner left in good order.
class DataFolder {
 public:
  /// Makes the folder if needed. Throws Failure if another process holds it, or if it is on a network file system
  /// (SQLite's WAL needs shared memory and honest locks).
  explicit DataFolder(std::filesystem::path folder);
  /// Notes a clean end when mark_clean() was called, and lets go.
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  /// Where its database is, or will be.
  std::filesystem::path database() const { return folder_ / "babelring.db"; }
  /// The previous owner ended without mark_clean(): the database deserves a check.
  bool was_unclean() const { return was_unclean_; }
  void mark_clean() { clean_ = true; }
  /// Bytes an unprivileged writer can still put on this file system.
  std::uintmax_t free_bytes() const;

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  bool was_unclean_ = false, clean_ = false;
};

}  // namespace babelring::store

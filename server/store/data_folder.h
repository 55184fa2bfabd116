#pragma once

#include <filesystem>

#include "base/failure.h"

namespace babelring::store {

/// Another process holds the data folder.
class FolderInUse : public Failure {
 public:
  using Failure::Failure;
};

/// The server's data folder, held by this process alone through a lock file, which also says whether a server has
/// used the folder, and whether the last one shut down cleanly.
class DataFolder {
 public:
  /// Creates the folder if needed, and removes what a killed owner left unfinished in it. Throws FolderInUse
  /// if another process holds it, or Failure if it is on a network file system (SQLite's WAL needs shared memory and
  /// honest locks).
  explicit DataFolder(std::filesystem::path folder);
  /// Notes a clean shutdown if mark_clean() was called, and releases the lock.
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  /// Path of the database, whether it exists or not.
  std::filesystem::path database() const { return folder_ / "babelring.db"; }
  /// Whether the database exists and is not empty.
  bool has_database() const;
  /// Throws Failure if the database is missing or empty although a server has used the folder, unless `anew` is set;
  /// and if `anew` is set although there is a database.
  void require_database(bool anew) const;

  /// The previous owner ended without mark_clean(): the database should be checked.
  bool was_unclean() const { return used_ && !was_clean_; }
  /// The database is there, and is used from now on: notes that in the lock file. Throws Failure.
  void mark_used();
  void mark_clean() { clean_ = true; }
  /// Bytes that an unprivileged process can still write to this file system.
  std::uintmax_t free_bytes() const;

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  bool used_ = false, was_clean_ = false;  // what the lock file said
  bool clean_ = false;
};

}  // namespace babelring::store

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/failure.h"

namespace babelring::store {

/// A damaged frame of a write-ahead log with valid ones of the same log behind it. SQLite recovers what precedes it,
/// and silently drops the rest.
struct WalDamage {
  std::int64_t frame = 0;         // from 1; 0: the log's header
  std::int64_t frames = 0;        // of the log
  std::int64_t transactions = 0;  // that end in or behind the damaged frame: these are lost
};

/// Looks for damage in a write-ahead log (https://www.sqlite.org/fileformat2.html#walformat) that no connection uses.
/// Nothing if it is sound, absent or cannot be read. A last frame that a killed server had only begun is no damage.
std::optional<WalDamage> find_wal_damage(const std::filesystem::path& wal);

/// Another process holds the data folder.
class FolderInUse : public Failure {
 public:
  using Failure::Failure;
};

/// Throws Failure if the folder, or its nearest existing parent, is on a network file system; warns in the log where
/// the file system may be on one.
void refuse_network_disk(const std::filesystem::path& folder);

/// The server's data folder. A lock file gives this process exclusive use. The lock file also records whether a server
/// has used the folder before and whether the last one shut down cleanly.
class DataFolder {
 public:
  /// Creates the folder if needed, and deletes unfinished files of a killed owner. Throws FolderInUse if another
  /// process holds the folder, or Failure if it is on a network file system (SQLite's WAL needs shared memory and
  /// reliable locks).
  explicit DataFolder(std::filesystem::path folder);
  /// Records a clean shutdown if mark_clean() was called, then releases the lock.
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  /// Path of the database, which may not exist.
  std::filesystem::path database() const { return folder_ / "babelring.db"; }
  /// True if the database exists and is not empty.
  bool has_database() const;
  /// Throws Failure if the database of a used folder is missing or empty, unless `anew` asks for a new one. Also throws
  /// Failure if `anew` is set but a database exists.
  void require_database(bool anew) const;

  /// True if the previous owner ended without mark_clean(), so the database should be checked.
  bool was_unclean() const { return used_ && !was_clean_; }
  bool was_clean() const { return was_clean_; }
  /// Records in the lock file that the folder has a database in use. Throws Failure.
  void mark_used() const;
  void mark_clean() { clean_ = true; }
  /// Free bytes on this file system for unprivileged processes.
  std::uintmax_t free_bytes() const;

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  bool used_ = false, was_clean_ = false;  // as read from the lock file
  bool clean_ = false;
};

}  // namespace babelring::store

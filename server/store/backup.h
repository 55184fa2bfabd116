#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

namespace babelring::store {

/// Formats a time for use in a file name, for example 20261121T134500123Z.
std::string file_time(std::int64_t time_ms);

/// Copies a consistent snapshot of the live database `source` to the new file `target`. `target` appears only once it
/// is complete, verified and synced to disk. Writers are not blocked. Returns the size of the backup in bytes. Throws
/// Failure, also when `stop` becomes true, or SqlFailure (full() if the disk is full); no file is left behind then.
std::int64_t back_up(const std::filesystem::path& source, const std::filesystem::path& target,
                     const std::atomic<bool>& stop);

/// The outcome of restore().
struct Restored {
  std::filesystem::path database;
  std::int64_t bytes = 0;
  int schema = 0;
  std::filesystem::path replaced;  // new path of the previous database; empty if there was none
};

/// Replaces the database in the data folder `data` by a copy of `backup`. Holds the folder lock meanwhile. The copy is
/// verified first. The previous database and its WAL are kept in the folder under another name. Throws Failure, with
/// nothing changed, if a server uses the folder, or if the backup is damaged, was written by a newer program or is not
/// a Babelring database.
Restored restore(const std::filesystem::path& data, const std::filesystem::path& backup);

}  // namespace babelring::store

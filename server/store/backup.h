#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

namespace babelring::store {

/// A time as part of a file name: 20261121T134500123Z.
std::string file_time(std::int64_t time_ms);

/// Copies a database that is in use: the state of `source` at one moment, into the new file `target`, which appears
/// under its name only once it is complete, checked and on disk. Writers are not blocked. Throws Failure, also when
/// `stop` becomes true, or SqlFailure (full() if the disk is full), and then leaves no file. Returns the size of the
/// backup in bytes.
std::int64_t back_up(const std::filesystem::path& source, const std::filesystem::path& target,
                     const std::atomic<bool>& stop);

/// The outcome of restore().
struct Restored {
  std::filesystem::path database;
  std::int64_t bytes = 0;
  int schema = 0;
  std::filesystem::path replaced;  // where the previous database is now; empty if there was none
};

/// Replaces the database of the folder `data` by a copy of `backup`, holding the folder's lock meanwhile. The copy is
/// first checked for damage and for a schema that this program knows. The previous database is kept, with its WAL,
/// under another name in the folder. Throws Failure, having changed nothing, if a server holds the folder, or if the
/// backup is damaged, of a newer program or not a Babelring database.
Restored restore(const std::filesystem::path& data, const std::filesystem::path& backup);

}  // namespace babelring::store

#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

namespace babelring::store {

/// 20261121T134500123Z: a time as a part of a file's name.
std::string file_time(std::int64_t time_ms);

/// Copies a database that is being written to: `source` as it stands at one moment, into the new file `target`, which
/// appears under its name only when it is complete, checked and on disk. Writers are not held up. Ends early with a
/// Failure when `stop` becomes true. Throws Failure, SqlFailure (full() where the disk is full); nothing is left then.
/// Returns the backup's bytes.
std::int64_t back_up(const std::filesystem::path& source, const std::filesystem::path& target,
                     const std::atomic<bool>& stop);

/// What restore() did.
struct Restored {
  std::filesystem::path database;
  std::int64_t bytes = 0;
  int schema = 0;
  std::filesystem::path replaced;  // the name that the database has now which was there; empty without one
};

/// Puts a copy of `backup` in the place of the database of the folder `data`, whose lock it holds meanwhile. The copy
/// is checked first: damage, and a schema that this program knows. The database that was there, with its WAL, is kept
/// under another name in the folder. Throws Failure, and changes nothing then: a server holds the folder, or the backup
/// is damaged, of a newer program or no database of Babelring.
Restored restore(const std::filesystem::path& data, const std::filesystem::path& backup);

}  // namespace babelring::store

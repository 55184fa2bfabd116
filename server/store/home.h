#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "server/store/sqlite.h"

namespace babelring::store {

/// The schema version that this program reads and writes: the number of files in server/store/migrations. Never edit a
/// statement of a released migration; add a file.
inline constexpr int schema_version = 21;

/// Migrates the database to schema_version in one transaction. Throws Failure, and changes nothing, if a newer program
/// wrote the database.
void migrate(Database& writer);

/// How many rows named a path that was renamed.
struct MovedRows {
  std::int64_t checkpoints = 0, runs = 0, artifacts = 0;
};

/// Renames every stored path at or below `from`, which no longer exists or is another server's now, to the same path
/// below `to`, and remembers the move for the records that come later. Both are absolute and without a final slash.
/// Throws SqlFailure.
MovedRows move_paths(Database& writer, const std::string& from, const std::string& to);

/// `path` where it lies now, by all moves so far.
std::string moved_path(Database& database, const std::string& path);

/// Compares the data folder with the one of the last start, and renames the paths below it if it has moved: the old
/// folder is gone, or this one is a copy of it with its runs. Not if the old folder is there and one of the `roots`, or
/// if only the database came along. The log says what was renamed. Throws SqlFailure.
void follow_data_folder(Database& writer, const std::filesystem::path& data,
                        const std::vector<std::filesystem::path>& roots);

/// Stores the world (see launch::process_world()) in which this server runs, and returns the last server's; empty if it
/// did not say. Call follow_data_folder() first. Throws SqlFailure.
std::string exchange_world(Database& writer, const std::string& world);

/// server --moved OLD=NEW: opens the database of a data folder that no server holds, and renames the paths. Returns a
/// sentence about it. Throws UsageFailure if `move` is not two absolute paths, or NEW no folder, and Failure if no
/// stored path lies below OLD.
std::string move_folder(const std::filesystem::path& data, const std::string& move);

}  // namespace babelring::store

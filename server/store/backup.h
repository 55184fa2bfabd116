#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

namespace babelring::store {

/// Copies a database that is being written to: `source` as it stands at one moment, into the new file `target`, which
/// appears under its name only when it is complete, checked and on disk. Writers are not held up. Ends early with a
/// Failure when `stop` becomes true. Throws Failure, SqlFailure (full() where the disk is full); nothing is left then.
/// Returns the backup's bytes.
std::int64_t back_up(const std::filesystem::path& source, const std::filesystem::path& target,
                     const std::atomic<bool>& stop);

}  // namespace babelring::store

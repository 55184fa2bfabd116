#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace babelring::store {

/// A damaged frame of a write-ahead log with valid ones of the same log behind it. SQLite recovers what precedes it,
/// and drops the rest without a word.
struct WalDamage {
  std::int64_t frame = 0;         // from 1; 0: the log's header
  std::int64_t frames = 0;        // of the log
  std::int64_t transactions = 0;  // that end in or behind the damaged frame: these are lost
};

/// Looks for damage in a write-ahead log (https://www.sqlite.org/fileformat2.html#walformat) that no connection uses.
/// Nothing if it is sound, absent or cannot be read. A last frame that a killed server had only begun is no damage.
std::optional<WalDamage> find_wal_damage(const std::filesystem::path& wal);

}  // namespace babelring::store

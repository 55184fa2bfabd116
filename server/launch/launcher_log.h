#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace babelring::launch {

/// The rank that took the others with it, as mpirun's output names it.
struct LostRank {
  std::int64_t rank = 0;
  std::string host;
  std::string how;  // "killed by signal 9", "exit code 1"
};

/// Looks for mpirun's sentence about the first rank that died. The text is foreign: what is taken from it is bounded
/// and printable.
std::optional<LostRank> find_lost_rank(std::string_view text);
/// The last line of a worker that says "error", without its time: often the cause. Empty if there is none.
std::string last_error_line(std::string_view text);
/// The last 64 KiB of a file; empty if it cannot be read.
std::string tail_of(const std::filesystem::path& file);

}  // namespace babelring::launch

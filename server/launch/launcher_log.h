#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace babelring::launch {

/// The first rank that died, as named in mpirun's output.
struct LostRank {
  std::int64_t rank = 0;
  std::string host;
  std::string how;  // "killed by signal 9", "exit code 1"
};

/// Finds mpirun's message about the first rank that died. `text` is untrusted: extracted strings are bounded and
/// printable.
std::optional<LostRank> find_lost_rank(std::string_view text);
/// The host whose daemon mpirun lost, by its output; empty if it lost none. Untrusted as well.
std::string find_lost_host(std::string_view text);
/// The last worker log line of level error, without its timestamp. Empty if there is none.
std::string last_error_line(std::string_view text);
/// The last 64 KiB of a file; empty if it cannot be read.
std::string tail_of(const std::filesystem::path& file);

}  // namespace babelring::launch

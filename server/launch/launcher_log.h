#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace babelring::launch {

/// The last worker log line of level error, without its timestamp. Empty if there is none.
std::string last_error_line(std::string_view text);
/// The last 64 KiB of a file; empty if it cannot be read.
std::string tail_of(const std::filesystem::path& file);

}  // namespace babelring::launch

#pragma once

#include <cstddef>
#include <filesystem>

namespace babelring {

/// Names mapped files whose pages can no longer be read: the file was truncated, or its disk fails. The kernel then
/// sends SIGBUS, which would end the process without a word about the file. With a guard the process writes one line
/// that names it to standard error and exits with code 1; other causes of SIGBUS are handled as before.
void guard_mapping(const std::byte* data, std::size_t size, const std::filesystem::path& file);

/// To be called before the mapping is removed.
void forget_mapping(const std::byte* data);

}  // namespace babelring

#pragma once

#include <cstddef>
#include <filesystem>

namespace babelring {

/// Registers a mapped file with the SIGBUS handler. The kernel sends SIGBUS when a page cannot be read: the file was
/// truncated or its disk failed. The handler then prints one line with the file name to standard error and exits with
/// code 1. Other causes of SIGBUS go to the previous handler.
void guard_mapping(const std::byte* data, std::size_t size, const std::filesystem::path& file);

/// Unregisters a mapping. Call before unmapping it.
void unguard_mapping(const std::byte* data);

}  // namespace babelring

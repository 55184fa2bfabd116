#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace babelring {

/// The part of the files' bytes that is in memory, by mincore: 0 to 1. 1 for empty files. Throws Failure.
double cached_share(const std::vector<std::filesystem::path>& files);

/// Drops the files from memory, also where this process has mapped them, and reads `share` of each again, in blocks
/// that are spread evenly. Throws Failure if a file cannot be read.
void set_cached_share(const std::vector<std::filesystem::path>& files, double share);

/// Bytes that the calling thread has fetched from storage so far; 0 where the kernel does not count them.
std::int64_t thread_read_bytes();

}  // namespace babelring

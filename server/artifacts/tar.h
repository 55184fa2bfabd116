#pragma once

#include <cstdint>
#include <string>

namespace babelring::artifacts {

/// The header of a file in a tar archive: a ustar block, preceded by a pax header if ustar cannot represent the name
/// (over 100 bytes or not ASCII) or the size (8 GiB or more). The entry is a regular file with mode 0644 owned by root.
/// `mtime_s` is in seconds since 1970. Source: POSIX.1-2017, pax, "ustar Interchange Format".
std::string tar_header(const std::string& name, std::int64_t size, std::int64_t mtime_s);

/// The zero padding after a file's content, up to a multiple of 512 bytes.
std::string tar_padding(std::int64_t size);

/// The end of an archive: two zero blocks.
std::string tar_end();

}  // namespace babelring::artifacts

#pragma once

#include <cstdint>
#include <string>

namespace babelring::http {

/// The bytes before a file's content in a tar archive: a ustar block, preceded by a pax header if the name or size does
/// not fit ustar (name longer than 100 bytes or not ASCII, size from 8 GiB). The entry is a regular file of mode 0644
/// owned by root. `mtime_s` is in seconds since 1970.  Source: POSIX.1-2017, pax, "ustar Interchange Format".
std::string tar_header(const std::string& name, std::int64_t size, std::int64_t mtime_s);

/// The zeros after a file's content that fill its last block of 512 bytes.
std::string tar_padding(std::int64_t size);

/// The end of an archive: two blocks of zeros.
std::string tar_end();

}  // namespace babelring::http

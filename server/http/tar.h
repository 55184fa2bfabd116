#pragma once

#include <cstdint>
#include <string>

namespace babelring::http {

/// The bytes before a file's content in a tar archive: one ustar block, or with a pax header before it where the name
/// or size does not fit ustar (name over 100 bytes or not ASCII, size from 8 GiB). A regular file of mode 0644, owned
/// by root. `mtime_s` is in seconds since 1970.  Source: POSIX.1-2017, pax, "ustar Interchange Format".
std::string tar_header(const std::string& name, std::int64_t size, std::int64_t mtime_s);

/// The zeros behind a file's content, up to a whole block of 512.
std::string tar_padding(std::int64_t size);

/// The archive's end: two blocks of zeros.
std::string tar_end();

}  // namespace babelring::http

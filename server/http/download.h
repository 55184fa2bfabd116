#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "server/http/message.h"

namespace babelring::http {

/// Opens the regular file `relative` below `folder` for reading. Follows no symbolic link below `folder` and never
/// leaves it (openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS). Returns an empty descriptor if there is no such
/// file.
FileDescriptor open_beneath(const std::filesystem::path& folder, const std::string& relative);

/// A file offered for download.
struct Download {
  FileDescriptor file;
  std::int64_t size = 0;
  std::string name;        // suggested file name
  std::string sha256_hex;  // of the content; used as strong entity tag
};

/// Returns 200, 206, 304 or 416, depending on Range, If-Range and If-None-Match of the request.
Response download_response(const RequestMessage& request, Download download);

/// Several parts offered for download as one file. Equal entity tags must imply equal bytes.
struct Assembly {
  CompositeBody body;
  std::string name;          // suggested file name
  std::string content_type;  // e.g. application/x-tar
  std::string etag;          // strong, including quotes
};

/// Same as above, for an assembled body.
Response download_response(const RequestMessage& request, Assembly assembly);

}  // namespace babelring::http

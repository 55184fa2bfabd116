#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "server/http/message.h"

namespace babelring::http {

/// Opens `relative` for reading beneath `folder`: no symbolic link anywhere below the folder is followed and nothing
/// outside it is reached (openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS). Only regular files. Empty if there is
/// no such file.
UniqueFd open_beneath(const std::filesystem::path& folder, const std::string& relative);

/// A file offered for download.
struct Download {
  UniqueFd file;
  std::int64_t size = 0;
  std::string name;        // suggested to the browser
  std::string sha256_hex;  // of the content: the strong entity tag
};

/// 200, 206, 304 or 416, depending on the request's Range, If-Range and If-None-Match.
Response download_response(const Request& request, Download download);

/// A body of several parts offered as one file. The same entity tag must always stand for the same bytes.
struct Assembly {
  Pieces body;
  std::string name;          // suggested to the browser
  std::string content_type;  // application/x-tar
  std::string etag;          // strong, with its quotes
};

/// The same for an assembled body.
Response download_response(const Request& request, Assembly assembly);

}  // namespace babelring::http

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "client/http_client.h"

namespace babelring {

/// A file on a server, with known size and digest.
struct RemoteFile {
  std::string target;  // request target for GET
  std::int64_t size = 0;
  std::string sha256;  // 64 hexadecimal digits; the server's strong ETag is the same in quotes
};

/// Called repeatedly with the number of bytes downloaded so far.
using DownloadProgress = std::function<void(std::int64_t bytes)>;

/// Downloads a file to `path` and verifies its digest. Resumes a partial file that an interrupted call left at `path`:
/// requests only the missing bytes (Range), and If-Range prevents a mix of two files. Resumes lost connections in the
/// same way, until `tries` requests in a row were cut short, the first of them perhaps after data. If the digest does
/// not match, downloads the whole file once more. The file is durable on return. Throws Failure (file, cause), or
/// ServerRefusal if the server refuses. The partial file is kept for the next call.
void download_file(HttpClient& client, const RemoteFile& remote, const std::filesystem::path& path,
                   const DownloadProgress& progress = {}, int tries = 5);

}  // namespace babelring

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "client/http_client.h"

namespace babelring {

/// A file that a server has and whose size and digest are known beforehand.
struct RemoteFile {
  std::string target;  // of the GET
  std::int64_t size = 0;
  std::string sha256;  // 64 hexadecimal digits; the server's strong ETag is the same in quotes
};

/// Called now and then with the bytes that are there, of `size`.
using DownloadProgress = std::function<void(std::int64_t bytes)>;

/// Downloads a file to `path` and verifies it. What an earlier, interrupted call left there is kept and only the rest
/// is requested (Range, with If-Range, so that parts of two files are never mixed); a lost connection is resumed in the
/// same way, until `tries` in a row brought no new byte. If the digest does not match, the file is removed and fetched
/// once more from the beginning. Durable on return. Throws Failure naming the file and what is wrong, ServerRefusal if
/// the server refuses; what has arrived is left for the next call.
void download_file(HttpClient& client, const RemoteFile& remote, const std::filesystem::path& path,
                   const DownloadProgress& progress = {}, int tries = 5);

}  // namespace babelring

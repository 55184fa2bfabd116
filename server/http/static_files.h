#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "server/http/message.h"

namespace babelring::http {

/// True if an Accept-Encoding header accepts gzip. An absent header does not.
bool accepts_gzip(std::string_view accept_encoding);

/// Compresses JSON bodies over 1 kB with gzip (zlib level 1) if the request accepts it. The ETag of the compressed body
/// is the plain ETag with "-gzip" before the closing quote. A 304 carries the ETag sent by the client.
void compress(const RequestMessage& request, Response& response);

/// A dashboard file, embedded in the program in gzipped form.
struct PageFile {
  std::string_view path;  // without leading slash: index.html, assets/index-4f2a.js
  std::string_view type;
  std::string_view etag;   // quoted SHA-256 of the uncompressed content
  std::size_t size = 0;    // uncompressed size in bytes
  bool immutable = false;  // the name contains a content hash, so it may be cached forever
  std::string_view gzip;
};

/// The dashboard as it was built into this program (server/page), sorted by path.
std::span<const PageFile> page_files();

/// Serves the dashboard from the embedded files, or from a folder during development. "/" serves index.html. Its views
/// are selected by the URL fragment, which the server does not see.
class StaticFiles {
 public:
  /// `files` must be sorted by path. `folder`: serve from this folder instead; empty: serve `files`.
  StaticFiles(std::span<const PageFile> files, std::filesystem::path folder)
      : files_(files), folder_(std::move(folder)) {}

  bool has(const RequestMessage& request) const;
  Response serve(const RequestMessage& request) const;

 private:
  const PageFile* find(std::string_view path) const;
  Response serve_embedded(const RequestMessage& request, const PageFile& file) const;
  Response serve_folder(const std::string& path) const;

  std::span<const PageFile> files_;
  std::filesystem::path folder_;
};

}  // namespace babelring::http

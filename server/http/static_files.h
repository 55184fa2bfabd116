#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "server/http/message.h"

namespace babelring::http {

/// A file of the page, embedded in the program with its content gzipped.
struct PageFile {
  std::string_view path;  // below /: index.html, assets/index-4f2a.js
  std::string_view type;
  std::string_view etag;   // quoted SHA-256 of the uncompressed content
  std::size_t size = 0;    // uncompressed
  bool immutable = false;  // the name contains a hash: may be cached forever
  std::string_view gzip;
};

/// Serves the page: from the program, or in development from a folder. "/" gives index.html, whose views are told apart
/// by what follows the # of an address, which no server sees.
class StaticFiles {
 public:
  /// `folder` empty: the embedded `files`, sorted by path.
  StaticFiles(std::span<const PageFile> files, std::filesystem::path folder)
      : files_(files), folder_(std::move(folder)) {}

  bool has(const Request& request) const;
  Response serve(const Request& request) const;

 private:
  const PageFile* find(std::string_view path) const;
  Response serve_embedded(const Request& request, const PageFile& file) const;
  Response serve_folder(const std::string& path) const;

  std::span<const PageFile> files_;
  std::filesystem::path folder_;
};

}  // namespace babelring::http

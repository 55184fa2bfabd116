#include "server/http/static_files.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include "base/failure.h"
#include "server/http/compress.h"
#include "server/http/download.h"
#include "server/http/etag.h"

namespace babelring::http {
namespace {

std::string path_of(const RequestMessage& request) {
  return request.segments.empty() ? "index.html" : fmt::format("{}", fmt::join(request.segments, "/"));
}

std::string_view type_of(std::string_view path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> types = {
      {{".html", "text/html; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".svg", "image/svg+xml"},
       {".png", "image/png"},
       {".ico", "image/x-icon"},
       {".json", "application/json"},
       {".woff2", "font/woff2"}}};
  for (const auto& [extension, type] : types) {
    if (path.ends_with(extension)) return type;
  }
  return "application/octet-stream";
}

std::string gunzip(std::string_view bytes, std::size_t size) {
  std::string content(size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) fail("zlib: cannot start");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib reads only
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(content.data());
  stream.avail_out = static_cast<uInt>(content.size());
  const int code = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (code != Z_STREAM_END) fail("zlib: cannot decompress an embedded file (code {})", code);
  return content;
}

}  // namespace

const PageFile* StaticFiles::find(std::string_view path) const {
  const auto found = std::lower_bound(files_.begin(), files_.end(), path,
                                      [](const PageFile& file, std::string_view name) { return file.path < name; });
  return found != files_.end() && found->path == path ? &*found : nullptr;
}

bool StaticFiles::has(const RequestMessage& request) const {
  if (!request.segments.empty() && request.segments.front() == "api") return false;
  const std::string path = path_of(request);
  return folder_.empty() ? find(path) != nullptr : static_cast<bool>(open_beneath(folder_, path));
}

Response StaticFiles::serve(const RequestMessage& request) const {
  const std::string path = path_of(request);
  if (!folder_.empty()) return serve_folder(path);
  const PageFile* file = find(path);
  if (file == nullptr) fail("dashboard file {} is missing", path);
  return serve_embedded(request, *file);
}

Response StaticFiles::serve_embedded(const RequestMessage& request, const PageFile& file) const {
  Response response;
  response.set("ETag", std::string(file.etag)).set("Vary", "Accept-Encoding");
  response.set("Cache-Control", file.immutable ? "public, max-age=31536000, immutable" : "no-cache");
  if (lists_etag(request.header("if-none-match"), file.etag)) {
    response.status = 304;
    return response;
  }
  response.set("Content-Type", std::string(file.type));
  if (accepts_gzip(request.header("accept-encoding"))) {
    response.set("Content-Encoding", "gzip");
    response.body = file.gzip;
  } else {
    response.body = gunzip(file.gzip, file.size);
  }
  return response;
}

Response StaticFiles::serve_folder(const std::string& path) const {
  FileDescriptor file = open_beneath(folder_, path);
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0) return text_response(404, "text/plain", "the file was removed\n");
  Response response;
  response.set("Content-Type", std::string(type_of(path))).set("Cache-Control", "no-cache");
  response.body = FileSlice{std::move(file), 0, status.st_size};
  return response;
}

}  // namespace babelring::http

#include "server/http/static_files.h"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/failure.h"
#include "base/gzip.h"
#include "server/http/download.h"
#include "server/http/fields.h"

namespace babelring::http {
namespace {

constexpr std::size_t min_bytes = 1024;  // smaller bodies hardly shrink

/// Changes the ETag of the plain body to that of the compressed body.
void mark_compressed(Response& response) {
  for (auto& [name, value] : response.headers) {
    if (name == "ETag" && value.ends_with('"')) value.insert(value.size() - 1, "-gzip");
  }
}

}  // namespace

bool accepts_gzip(std::string_view accept_encoding) {
  static const std::array<std::string, 1> gzip_alone = {"gzip"};
  return !accept_encoding.empty() && accepted_type(accept_encoding, gzip_alone);
}

void compress(const RequestMessage& request, Response& response) {
  const auto* text = std::get_if<std::string>(&response.body);
  if (text == nullptr || (response.status != 200 && response.status != 304) ||
      response.header("Content-Type") != "application/json" || !response.header("Content-Encoding").empty()) {
    return;
  }
  response.set("Vary", "Accept-Encoding");
  if (response.status == 304) {
    if (!lists_etag(request.header("if-none-match"), response.header("ETag"))) mark_compressed(response);
    return;
  }
  if (text->size() <= min_bytes || !accepts_gzip(request.header("accept-encoding"))) return;
  response.body = gzip(*text);
  response.set("Content-Encoding", "gzip");
  mark_compressed(response);
}

namespace {

std::string path_of(const RequestMessage& request) {
  return request.segments.empty() ? "index.html" : fmt::format("{}", fmt::join(request.segments, "/"));
}

/// Sets the policy of a script that runs as a worker, which alone a script's own policy binds: it may compile
/// WebAssembly, which computes models there. The page's documents may not.
void set_worker_policy(Response& response, std::string_view type) {
  if (!type.starts_with("text/javascript")) return;
  response.set("Content-Security-Policy",
               "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; frame-ancestors 'none'");
}

std::string_view type_of(std::string_view path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> types = {
      {{".html", "text/html; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".svg", "image/svg+xml"},
       {".png", "image/png"},
       {".ico", "image/x-icon"},
       {".json", "application/json"},
       {".woff2", "font/woff2"},
       {".wasm", "application/wasm"}}};
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
  set_worker_policy(response, file.type);
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
  set_worker_policy(response, type_of(path));
  response.body = FileSlice{std::move(file), 0, status.st_size};
  return response;
}

}  // namespace babelring::http

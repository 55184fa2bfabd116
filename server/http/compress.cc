#include "server/http/compress.h"

#include <zlib.h>

#include <array>
#include <string>

#include "base/failure.h"
#include "server/http/accept.h"
#include "server/http/etag.h"

namespace babelring::http {
namespace {

constexpr std::size_t min_bytes = 1024;  // smaller bodies hardly shrink

std::string gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) fail("zlib: cannot start");
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib reads only
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int code = deflate(&stream, Z_FINISH);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) fail("zlib: cannot compress {} bytes (code {})", text.size(), code);
  return packed;
}

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

void compress(const Request& request, Response& response) {
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

}  // namespace babelring::http

#include "server/http/compress.h"

#include <zlib.h>

#include <cctype>
#include <string>

#include "nmt/base/failure.h"
#include "server/http/field_text.h"

namespace babelring::http {
namespace {

constexpr std::size_t worth_it_bytes = 1024;

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
  if (code != Z_STREAM_END) fail("zlib: cannot pack {} bytes (code {})", text.size(), code);
  return packed;
}

}  // namespace

bool accepts_gzip(std::string_view list) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    const std::string_view entry = trimmed(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    const auto semicolon = entry.find(';');
    const std::string_view coding = trimmed(entry.substr(0, semicolon));
    if (coding != "gzip" && coding != "*") continue;
    if (semicolon == std::string_view::npos) return true;
    const std::string_view weight = trimmed(entry.substr(semicolon + 1));
    const bool never = weight.starts_with("q=0") && weight.find_first_not_of("0.", 2) == std::string_view::npos;
    return !never;
  }
  return false;
}

void compress(const Request& request, Response& response) {
  const auto* text = std::get_if<std::string>(&response.body);
  if (text == nullptr || (response.status != 200 && response.status != 304) ||
      response.header("Content-Type") != "application/json" || !response.header("Content-Encoding").empty()) {
    return;
  }
  response.set("Vary", "Accept-Encoding");  // a 304 says what its 200 would
  if (text->size() <= worth_it_bytes || !accepts_gzip(request.header("accept-encoding"))) return;
  response.body = gzip(*text);
  response.set("Content-Encoding", "gzip");
  for (auto& [name, value] : response.headers) {
    if (name == "ETag" && value.ends_with('"')) value.insert(value.size() - 1, "-gzip");
  }
}

}  // namespace babelring::http

#include "server/http/compress.h"

#include <array>
#include <string>

#include "base/gzip.h"
#include "server/http/accept.h"
#include "server/http/etag.h"

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

}  // namespace babelring::http

#include "server/api/conditional.h"

#include "nmt/base/digest.h"
#include "server/http/dispatcher.h"
#include "server/http/problem.h"

namespace babelring::api {
namespace {

constexpr std::size_t digits = 24;  // of a digest, 96 bits

}  // namespace

std::string state_of(json::object thing, std::initializer_list<std::string_view> fleeting) {
  for (const std::string_view member : fleeting) thing.erase(member);
  return sha256_hex(to_text(thing)).substr(0, digits);
}

http::Response thing_response(const http::Request& request, const json::object& thing,
                              std::initializer_list<std::string_view> fleeting) {
  std::string body = to_text(thing);
  const std::string etag = '"' + state_of(thing, fleeting) + '-' + sha256_hex(body).substr(0, digits) + '"';
  http::Response response = http::text_response(200, "application/json", std::move(body));
  response.set("Cache-Control", "no-cache").set("ETag", etag);
  const std::string_view known = request.header("if-none-match");
  const std::string packed = etag.substr(0, etag.size() - 1) + "-gzip\"";
  if (http::lists_etag(known, etag) || http::lists_etag(known, packed)) {
    response.status = 304;
    response.body = std::string();
  }
  return response;
}

void require_match(const http::Request& request, std::string_view state) {
  const std::string_view known = request.header("if-match");
  if (known.empty() || known == "*") return;
  const std::string prefix = '"' + std::string(state) + '-';
  if (known.find(prefix) == std::string_view::npos) {
    throw http::Problem(412, "changed", "it is no longer as If-Match says: get it again");
  }
}

}  // namespace babelring::api

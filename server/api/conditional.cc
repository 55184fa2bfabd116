#include "server/api/conditional.h"

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "server/http/etag.h"
#include "server/http/problem.h"

namespace babelring::api {
namespace {

constexpr std::size_t digits = 24;  // of a digest, 96 bits

}  // namespace

std::string digest_of(std::string_view text) {
  return sha256_hex(text).substr(0, digits);
}

std::string state_digest(json::object resource, std::initializer_list<std::string_view> volatile_members) {
  for (const std::string_view member : volatile_members) resource.erase(member);
  return digest_of(to_text(resource));
}

http::Response resource_response(const http::Request& request, const json::object& resource,
                                 std::initializer_list<std::string_view> volatile_members) {
  std::string body = to_text(resource);
  std::string etag = '"' + state_digest(resource, volatile_members) + '-' + digest_of(body) + '"';
  return tagged_response(request, std::move(body), std::move(etag));
}

http::Response tagged_response(const http::Request& request, std::string body, std::string etag) {
  http::Response response = http::text_response(200, "application/json", std::move(body));
  const std::string_view known = request.header("if-none-match");
  const bool same = !known.empty() && (http::lists_etag(known, etag) ||
                                       http::lists_etag(known, etag.substr(0, etag.size() - 1) + "-gzip\""));
  response.set("Cache-Control", "no-cache").set("ETag", std::move(etag));
  if (same) {
    response.status = 304;
    response.body = std::string();
  }
  return response;
}

void require_match(const http::Request& request, std::string_view state) {
  const std::string_view known = request.header("if-match");
  if (known.empty() || known == "*") return;
  const std::string prefix = '"' + std::string(state) + '-';
  const auto tags = http::entity_tags(known, http::WeakTags::take);
  if (std::none_of(tags.begin(), tags.end(), [&](std::string_view tag) { return tag.starts_with(prefix); })) {
    throw http::Problem(412, "changed", "the resource has changed since the ETag in If-Match; get it again");
  }
}

}  // namespace babelring::api

#include "server/http/etag.h"

#include <algorithm>

#include "base/digest.h"
#include "server/http/field_text.h"

namespace babelring::http {

std::vector<std::string_view> entity_tags(std::string_view list, WeakTags weak_tags) {
  std::vector<std::string_view> tags;
  for (;;) {
    list.remove_prefix(std::min(list.find_first_not_of(" \t,"), list.size()));
    const bool weak = list.starts_with("W/");
    if (weak) list.remove_prefix(2);
    const std::size_t end = list.starts_with('"') ? list.find('"', 1) : std::string_view::npos;
    if (end == std::string_view::npos) return tags;
    if (!weak || weak_tags == WeakTags::take) tags.push_back(list.substr(0, end + 1));
    list.remove_prefix(end + 1);
  }
}

bool if_match_holds(std::string_view field, std::string_view etag) {
  const std::string_view list = trimmed(field);
  if (list.empty() || list == "*") return true;
  const auto tags = entity_tags(list, WeakTags::skip);
  return std::find(tags.begin(), tags.end(), etag) != tags.end();
}

bool lists_etag(std::string_view list, std::string_view etag) {
  if (list == "*") return true;
  for (std::size_t at = list.find(etag); at != std::string_view::npos; at = list.find(etag, at + 1)) {
    const bool ends = at + etag.size() == list.size() || list[at + etag.size()] == ',' || list[at + etag.size()] == ' ';
    if (ends) return true;
  }
  return false;
}

void add_validator(const RequestMessage& request, Response& response) {
  const auto* body = std::get_if<std::string>(&response.body);
  const bool readable = request.method == "GET" || request.method == "HEAD";
  if (!readable || response.status != 200 || body == nullptr || !response.header("ETag").empty()) return;
  const std::string etag = '"' + sha256_hex(*body).substr(0, 32) + '"';
  if (response.header("Cache-Control").empty()) response.set("Cache-Control", "no-cache");
  response.set("ETag", etag);
  const std::string_view known = request.header("if-none-match");
  if (!lists_etag(known, etag) && !lists_etag(known, etag.substr(0, etag.size() - 1) + "-gzip\"")) return;
  response.status = 304;
  response.body = std::string();
}

}  // namespace babelring::http

#include "server/http/etag.h"

#include <algorithm>

#include "server/http/field_text.h"

namespace babelring::http {

std::vector<std::string_view> strong_tags(std::string_view list) {
  std::vector<std::string_view> tags;
  for (;;) {
    list.remove_prefix(std::min(list.find_first_not_of(" \t,"), list.size()));
    const bool weak = list.starts_with("W/");
    if (weak) list.remove_prefix(2);
    const std::size_t end = list.starts_with('"') ? list.find('"', 1) : std::string_view::npos;
    if (end == std::string_view::npos) return tags;
    if (!weak) tags.push_back(list.substr(0, end + 1));
    list.remove_prefix(end + 1);
  }
}

bool if_match_holds(std::string_view field, std::string_view etag) {
  const std::string_view list = trimmed(field);
  if (list.empty() || list == "*") return true;
  const auto tags = strong_tags(list);
  return std::find(tags.begin(), tags.end(), etag) != tags.end();
}

}  // namespace babelring::http

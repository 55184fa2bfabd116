#include "base/records/library_versions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace babelring {

json::object to_json(const LibraryVersions& versions) {
  json::object object;
  visit_libraries(versions, [&](std::string_view key, std::string_view, const std::string& number) {
    if (!number.empty()) object[key] = number;
  });
  return object;
}

LibraryVersions library_versions_from_json(const json::value& value) {
  constexpr std::size_t max_bytes = 64;
  LibraryVersions versions;
  if (!value.is_object()) return versions;
  visit_libraries(versions, [&](std::string_view key, std::string_view, std::string& number) {
    std::string text = get_text(value.get_object(), key);
    if (text.size() <= max_bytes) number = std::move(text);
  });
  return versions;
}

std::string text_of(const LibraryVersions& versions) {
  std::vector<std::string> known;
  visit_libraries(versions, [&](std::string_view, std::string_view name, const std::string& number) {
    if (!number.empty()) known.push_back(fmt::format("{} {}", name, number));
  });
  return fmt::format("{}", fmt::join(known, ", "));
}

LibraryVersions merged(const std::vector<LibraryVersions>& ranks) {
  LibraryVersions all;
  visit_libraries(all, [&](std::string_view key, std::string_view, std::string& number) {
    std::vector<std::string> found;
    for (const LibraryVersions& rank : ranks) {
      visit_libraries(rank, [&](std::string_view other, std::string_view, const std::string& one) {
        if (other == key && !one.empty() && std::ranges::find(found, one) == found.end()) found.push_back(one);
      });
    }
    number = fmt::format("{}", fmt::join(found, " / "));
  });
  return all;
}

std::vector<std::string> library_differences(const LibraryVersions& a, const LibraryVersions& b) {
  std::vector<std::string> lines;
  visit_libraries(a, [&](std::string_view key, std::string_view name, const std::string& first) {
    visit_libraries(b, [&](std::string_view other, std::string_view, const std::string& second) {
      if (other != key || first.empty() || second.empty() || first == second) return;
      lines.push_back(fmt::format("{} differs: {} / {}", name, first, second));
    });
  });
  return lines;
}

}  // namespace babelring

#include "server/http/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <charconv>
#include <set>
#include <vector>

#include "base/digest.h"
#include "base/log.h"
#include "base/text.h"

namespace babelring::http {
namespace {

struct MediaRange {
  std::string name;  // text/csv, text/*, */*
  double quality = 1;
};

/// Removes the part of `text` before `mark`, and the mark, and returns that part trimmed.
std::string_view cut_off(std::string_view& text, char mark) {
  const auto end = text.find(mark);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return trimmed(part);
}

std::vector<MediaRange> ranges_of(std::string_view accept) {
  std::vector<MediaRange> ranges;
  while (!accept.empty()) {
    std::string_view item = cut_off(accept, ',');
    MediaRange range{lower(cut_off(item, ';'))};
    if (range.name == "*") range.name = "*/*";  // sent by some old clients
    while (!item.empty()) {
      const std::string_view parameter = cut_off(item, ';');
      if (!lower(parameter).starts_with("q=")) continue;
      std::from_chars(parameter.data() + 2, parameter.data() + parameter.size(), range.quality);
    }
    if (!range.name.empty()) ranges.push_back(std::move(range));
  }
  return ranges;
}

/// Specificity of a media range's match: 3 exact, 2 by `type/*`, 1 by `*/*`, 0 no match.
int specificity(const std::string& range, const std::string& type) {
  if (range == type) return 3;
  if (range == "*/*") return 1;
  return range.ends_with("/*") && type.starts_with(range.substr(0, range.size() - 1)) ? 2 : 0;
}

}  // namespace

std::optional<std::size_t> accepted_type(std::string_view accept, std::span<const std::string> types) {
  const std::vector<MediaRange> ranges = ranges_of(accept);
  if (ranges.empty() && !types.empty()) return 0;
  std::optional<std::size_t> best;
  double best_quality = 0;
  for (std::size_t i = 0; i < types.size(); ++i) {
    int best_match = 0;
    double quality = 0;
    for (const MediaRange& range : ranges) {
      const int match = specificity(range.name, types[i]);
      if (match <= best_match) continue;
      best_match = match;
      quality = range.quality;
    }
    if (quality <= best_quality) continue;
    best_quality = quality;
    best = i;
  }
  return best;
}

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

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string media_type_of(std::string_view content_type) {
  return lower(trimmed(content_type.substr(0, content_type.find(';'))));
}

namespace {

constexpr std::size_t max_shown_bytes = 100;

Problem unknown_parameter(const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = did_you_mean(name, known);
  const std::string taken =
      known.empty() ? "; none is taken here" : fmt::format("; expected one of {}", fmt::join(known, ", "));
  return {400, "unknown_parameter",
          fmt::format("query parameter '{}' is unknown{}", printable(name.substr(0, max_shown_bytes)),
                      nearest.empty() ? taken : nearest)};
}

}  // namespace

std::optional<Problem> query_fault(const std::string& target, const std::vector<std::string>& known) {
  if (target.find('?') == std::string::npos) return std::nullopt;
  const auto url = boost::urls::parse_origin_form(target);
  if (!url) return Problem(400, "malformed", "request target is not a path with an optional query");
  std::set<std::string> seen;
  for (const auto& parameter : url->params()) {
    const std::string name(parameter.key);
    if (name.empty() && !parameter.has_value) continue;  // "?", or "&" at the end
    if (std::find(known.begin(), known.end(), name) == known.end()) return unknown_parameter(name, known);
    if (!seen.insert(name).second) {
      return Problem(400, "bad_parameter", fmt::format("query parameter '{}' is given twice", name));
    }
  }
  return std::nullopt;
}

namespace {

/// Parses a decimal number. Returns nothing unless the text is all digits and the value fits.
std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '-') return std::nullopt;
  return value;
}

}  // namespace

RangeRequest parse_range(std::string_view header, std::int64_t size) {
  using Kind = RangeRequest::Kind;
  constexpr std::string_view unit = "bytes=";
  const RangeRequest whole{Kind::whole, 0, size};
  if (!header.starts_with(unit) || header.find(',') != std::string_view::npos) return whole;
  const std::string_view range = header.substr(unit.size());
  const auto dash = range.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view left = range.substr(0, dash), right = range.substr(dash + 1);

  if (left.empty()) {  // the last n bytes
    const auto last = right.empty() ? std::nullopt : number(right);
    if (!last) return whole;
    if (*last == 0 || size == 0) return {Kind::unsatisfiable, 0, 0};
    const std::int64_t length = std::min(*last, size);
    return {Kind::part, size - length, length};
  }
  const auto first = number(left);
  const auto last = right.empty() ? std::optional<std::int64_t>(INT64_MAX) : number(right);
  if (!first || !last || *last < *first) return whole;
  if (*first >= size) return {Kind::unsatisfiable, 0, 0};
  return {Kind::part, *first, std::min(*last, size - 1) - *first + 1};
}

}  // namespace babelring::http

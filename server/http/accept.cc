#include "server/http/accept.h"

#include <charconv>
#include <vector>

#include "server/http/field_text.h"

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

}  // namespace babelring::http

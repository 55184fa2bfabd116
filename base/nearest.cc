#include "base/nearest.h"

#include <algorithm>
#include <numeric>

namespace babelring {
namespace {

/// Levenshtein distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t limit = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t longer = std::max(name.size(), candidate.size());
    const std::size_t shorter = std::min(name.size(), candidate.size());
    if (longer - shorter >= limit) continue;  // a lower bound of the distance; skips quadratic work on huge names
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < limit) {
      limit = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean_key(std::string_view key, const std::vector<std::string>& known) {
  const auto last_part = [](std::string_view dotted) { return dotted.substr(dotted.rfind('.') + 1); };
  std::string list;
  int found = 0;
  for (const std::string& candidate : known) {
    if (last_part(candidate) != last_part(key) || ++found > 3) continue;
    list += (found == 1 ? "'" : " or '") + candidate + "'";
  }
  return found == 0 ? did_you_mean(key, known) : "; did you mean " + list + "?";
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace babelring

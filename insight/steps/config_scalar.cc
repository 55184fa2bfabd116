#include "insight/steps/config_scalar.h"

#include <algorithm>
#include <charconv>

namespace babelring::verdict {

double number_in(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string config_scalar(std::string_view yaml, std::string_view dotted_key) {
  std::size_t depth = 0;  // matched levels of the key
  while (!yaml.empty()) {
    const auto end = yaml.find('\n');
    std::string_view line = yaml.substr(0, end);
    yaml.remove_prefix(end == std::string_view::npos ? yaml.size() : end + 1);
    const auto indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos || indent % 2 != 0) continue;
    depth = std::min(depth, indent / 2);
    if (indent / 2 != depth) continue;
    std::string_view name = dotted_key;  // rest of the key at this depth
    for (std::size_t level = 0; level < depth; ++level) name.remove_prefix(name.find('.') + 1);
    name = name.substr(0, name.find('.'));
    line.remove_prefix(indent);
    if (!line.starts_with(name) || line.substr(name.size(), 1) != ":") continue;
    line.remove_prefix(name.size() + 1);
    const bool leaf = static_cast<std::size_t>(std::count(dotted_key.begin(), dotted_key.end(), '.')) == depth;
    if (!leaf) {
      ++depth;
      continue;
    }
    const auto first = line.find_first_not_of(" \"");
    const auto last = line.find_last_not_of(" \"\r");
    return first == std::string_view::npos ? std::string() : std::string(line.substr(first, last - first + 1));
  }
  return {};
}

}  // namespace babelring::verdict

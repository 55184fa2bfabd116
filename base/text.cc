#include "base/text.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <numeric>

namespace babelring {

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with the zero that OpenSSL adds
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), data, static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

std::string base64_of_hex(std::string_view hex) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(value(hex[i]) << 4 | value(hex[i + 1]));
  }
  return base64(bytes);
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

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

std::string grouped(double number) {
  std::string text = fmt::format("{:.0f}", number);
  const std::size_t first = text.starts_with('-') ? 2 : 1;  // no comma before the first digit
  for (std::size_t at = text.size(); at > first + 2;) text.insert(at -= 3, ",");
  return text;
}

std::string counted(double number, std::string_view unit) {
  std::string text = fmt::format("{:.2f}", number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  for (std::size_t at = std::min(text.find('.'), text.size()); at > 3; at -= 3) text.insert(at - 3, ",");
  return fmt::format("{} {}{}", text, unit, number == 1 ? "" : "s");
}

}  // namespace babelring

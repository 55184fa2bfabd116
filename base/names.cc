#include "base/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/text.h"

namespace babelring {
namespace {

/// Ranges of refused code points, inclusive.
constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 10> refused_characters = {{
    {0x0000, 0x001f},  // control characters
    {0x007f, 0x009f},
    {0x061c, 0x061c},    // Arabic letter mark
    {0x180e, 0x180e},    // Mongolian vowel separator (zero width)
    {0x200b, 0x200b},    // zero-width space
    {0x200e, 0x200f},    // directional marks
    {0x2028, 0x202e},    // line and paragraph separators, directional embeddings and overrides
    {0x2060, 0x206f},    // word joiner, invisible operators, directional isolates
    {0xfeff, 0xfeff},    // byte order mark
    {0xe0000, 0xe007f},  // tags
}};

/// The code point at byte `at` of valid UTF-8, and its length in bytes.
std::pair<std::uint32_t, std::size_t> code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  std::uint32_t point = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) point = point << 6 | (byte(i) & 0x3fU);
  return {point, length};
}

constexpr std::string_view crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

}  // namespace

Status check_name(std::string_view text) {
  if (!is_utf8(text)) return Error{"expected UTF-8"};
  for (std::size_t at = 0; at < text.size();) {
    const auto [point, length] = code_point_at(text, at);
    const auto holds = [found = point](const auto& range) { return range.first <= found && found <= range.second; };
    if (std::any_of(refused_characters.begin(), refused_characters.end(), holds)) {
      return Error{fmt::format("expected no control or invisible characters, found U+{:04X} at byte {}", point, at)};
    }
    at += length;
  }
  return {};
}

Status check_labels(const json::object& labels) {
  constexpr std::size_t max_labels = 64, max_name_bytes = 64, max_value_bytes = 256;
  if (labels.size() > max_labels)
    return Error{fmt::format("found {} labels, expected at most {}", labels.size(), max_labels)};
  for (const auto& [key, value] : labels) {
    const std::string name = printable(std::string_view(key));
    if (key.empty() || key.size() > max_name_bytes || key.find('=') != key.npos) {
      return Error{fmt::format("label '{}': expected a name of 1 to {} bytes without '='", name, max_name_bytes)};
    }
    if (!value.is_string() || value.get_string().size() > max_value_bytes) {
      return Error{fmt::format("label '{}': expected a text of at most {} bytes", name, max_value_bytes)};
    }
    for (const std::string_view text : {std::string_view(key), std::string_view(value.get_string())}) {
      if (const Status good = check_name(text); !good) return Error{fmt::format("label '{}': {}", name, good.error())};
    }
  }
  return {};
}

Result<json::object> parse_labels(const std::vector<std::string>& texts) {
  json::object labels;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return Error{fmt::format("expected KEY=VALUE, found '{}'", printable(text))};
    labels[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (const Status good = check_labels(labels); !good) return Error{good.error()};
  return labels;
}

namespace {

/// `bits`: called four times, for 20 bits each.
std::string make_id(char prefix, std::int64_t time_ms, const std::function<std::uint32_t()>& bits) {
  std::string id(28, '0');
  id[0] = prefix;
  id[1] = '_';
  auto time = static_cast<std::uint64_t>(time_ms) & 0xffffffffffffULL;
  for (std::size_t i = 11; i >= 2; --i, time >>= 5) id[i] = crockford[time & 31];  // 48 bits in 10 digits
  for (std::size_t i = 12; i < 28; i += 4) {
    std::uint32_t some = bits();  // 80 bits in 16 digits
    for (std::size_t j = 0; j < 4; ++j, some >>= 5) id[i + j] = crockford[some & 31];
  }
  return id;
}

}  // namespace

std::string make_id(char prefix) {
  thread_local std::random_device entropy;
  return make_id(prefix, wall_time_ms(), [] { return static_cast<std::uint32_t>(entropy()); });
}

std::string make_id(char prefix, std::int64_t time_ms, std::string_view content) {
  const std::string digest = sha256_hex(content);
  std::size_t at = 0;
  return make_id(prefix, time_ms, [&] {
    at += 5;  // hexadecimal digits of 4 bits
    return static_cast<std::uint32_t>(std::stoul(digest.substr(at - 5, 5), nullptr, 16));
  });
}

bool valid_id(std::string_view id, char prefix) {
  return id.size() == 28 && id[0] == prefix && id[1] == '_' &&
         id.find_first_not_of(crockford, 2) == std::string_view::npos;
}

namespace {

namespace fs = std::filesystem;
constexpr std::string_view checkpoint_prefix = "update-";

/// The first kilobytes of a file, more than SHA256SUMS of any checkpoint but one of many shards; empty if it cannot be
/// read.
std::string beginning_of(const fs::path& file) {
  std::string text(std::size_t{64} << 10, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

/// The sibling of the folder `best` with the same digests; empty if there is none.
std::string same_sibling(const fs::path& best) {
  const std::string sums = beginning_of(best / "SHA256SUMS");
  std::error_code error;
  for (fs::directory_iterator entry(best.parent_path(), error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (is_checkpoint_name(name) && !sums.empty() && beginning_of(entry->path() / "SHA256SUMS") == sums) return name;
  }
  return "";
}

}  // namespace

bool is_checkpoint_name(std::string_view name) {
  constexpr std::size_t max_digits = 18;
  return name.size() > checkpoint_prefix.size() && name.size() <= checkpoint_prefix.size() + max_digits &&
         name.starts_with(checkpoint_prefix) &&
         name.find_first_not_of("0123456789", checkpoint_prefix.size()) == std::string_view::npos;
}

std::string best_checkpoint_name(const fs::path& given) {
  const fs::path checkpoints = given.empty() ? fs::path(".") : given;
  const fs::path best = checkpoints / best_name;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(best, error);
  std::string name;
  if (fs::is_symlink(status)) {
    const fs::path target = (checkpoints / fs::read_symlink(best, error) / "").lexically_normal().parent_path();
    if (fs::equivalent(target.parent_path(), checkpoints, error)) name = target.filename().string();
  } else if (fs::is_regular_file(status)) {
    name = beginning_of(best);
    name.erase(name.find_last_not_of(" \t\r\n") + 1);
  } else if (fs::is_directory(status)) {
    name = same_sibling(best);
    if (name.empty() && fs::exists(best / "state.json", error)) return best_name;
  }
  return is_checkpoint_name(name) ? name : "";
}

std::string tensor_file_name(std::string_view tensors, int shard, int shards) {
  if (shards == 1) return fmt::format("{}.safetensors", tensors);
  return fmt::format("{}-{:05}-of-{:05}.safetensors", tensors, shard + 1, shards);
}

int shards_of_file(std::string_view name, std::string_view tensors) {
  if (name == tensor_file_name(tensors)) return 1;
  if (name.size() != tensor_file_name(tensors, 0, 2).size()) return 0;
  const std::string_view numbers = name.substr(tensors.size() + 1);  // 00002-of-00004.safetensors
  const int shard = parse_number<int>(numbers.substr(0, 5)).value_or(0);
  const int shards = parse_number<int>(numbers.substr(9, 5)).value_or(0);
  const bool one_of_them = shard >= 1 && shard <= shards && shards >= 2;
  return one_of_them && name == tensor_file_name(tensors, shard - 1, shards) ? shards : 0;
}

}  // namespace babelring

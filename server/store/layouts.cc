#include "server/store/layouts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace babelring::store {

std::int64_t Layouts::intern(const std::vector<std::string>& keys) {
  const std::string text = fmt::format("{}", fmt::join(keys, "\n"));
  if (const auto known = by_text_.find(text); known != by_text_.end()) return known->second;
  database_.prepare("INSERT INTO layouts(keys) VALUES (?) ON CONFLICT DO NOTHING").bind(text).run();
  Statement find = database_.prepare("SELECT layout FROM layouts WHERE keys = ?");
  std::int64_t layout = 0;
  if (!find.bind(text).next(layout)) fail("database: layout of {} keys was not stored", keys.size());
  return by_text_[text] = layout;
}

const std::vector<std::string>& Layouts::keys(std::int64_t layout) {
  if (const auto known = by_number_.find(layout); known != by_number_.end()) return known->second;
  Statement find = database_.prepare("SELECT keys FROM layouts WHERE layout = ?");
  std::string lines;
  if (!find.bind(layout).next(lines)) fail("database: layout {} is missing", layout);
  std::vector<std::string> keys;
  std::istringstream text(lines);
  for (std::string key; std::getline(text, key);) keys.push_back(std::move(key));
  return by_number_[layout] = std::move(keys);
}

std::optional<std::size_t> Layouts::place(std::int64_t layout, std::string_view key) {
  const auto& all = keys(layout);
  const auto found = std::find(all.begin(), all.end(), key);
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

}  // namespace babelring::store

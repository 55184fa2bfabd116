#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/store/sqlite.h"

namespace babelring::store {

/// Layouts: the lists of keys that say which value of a stored step is which. Nearly all steps of a run share one. Used
/// by one thread at a time.
class Layouts {
 public:
  explicit Layouts(Database& database) : database_(database) {}

  /// Number of the layout with these keys, which is created if absent (writer only, within a transaction).
  std::int64_t intern(const std::vector<std::string>& keys);
  /// The keys of a layout. Throws Failure for an unknown one.
  const std::vector<std::string>& keys(std::int64_t layout);
  /// Index of a key in a layout, if it has that key.
  std::optional<std::size_t> place(std::int64_t layout, std::string_view key);
  /// Drops the cache, after a rollback that may have undone new layouts.
  void forget() { by_text_.clear(), by_number_.clear(); }

 private:
  Database& database_;
  std::unordered_map<std::string, std::int64_t> by_text_;
  std::map<std::int64_t, std::vector<std::string>> by_number_;
};

}  // namespace babelring::store

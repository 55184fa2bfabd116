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

/// Key layouts. A layout is the ordered list of metric keys for the values of a stored step. Nearly all steps of a run
/// share one layout. Not thread-safe.
class Layouts {
 public:
  explicit Layouts(Database& database) : database_(database) {}

  /// Returns the number of the layout with these keys. Creates the layout if it does not exist, which needs the
  /// writer's connection and a transaction.
  std::int64_t intern(const std::vector<std::string>& keys);
  /// The keys of a layout. Throws Failure for an unknown one.
  const std::vector<std::string>& keys(std::int64_t layout);
  /// Index of a key in a layout, or nothing if the layout lacks the key.
  std::optional<std::size_t> place(std::int64_t layout, std::string_view key);
  /// Clears the cache. Call this after a rollback, which may have removed new layouts.
  void forget() { by_text_.clear(), by_number_.clear(); }

 private:
  Database& database_;
  std::unordered_map<std::string, std::int64_t> by_text_;
  std::map<std::int64_t, std::vector<std::string>> by_number_;
};

}  // namespace babelring::store

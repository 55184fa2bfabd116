#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/records/records.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// NaN: no value.
inline constexpr double absent = std::numeric_limits<double>::quiet_NaN();

/// How the values of several ranks are combined into a value of the run.
enum class RankAggregate {
  mean,
  sum,       // extensive quantities: tokens, bytes, rates
  host_sum,  // host counters, reported by every rank of a host: max within each host, then summed over hosts
};

RankAggregate rank_aggregate(std::string_view key);
std::string_view to_string(RankAggregate aggregate);

/// All values of a step by key: its own members, the members of memory_bytes and gpu, and derived rates.
std::vector<std::pair<std::string, double>> stored_metrics(const StepRecord& step);

/// Key layouts. A layout is the ordered list of metric keys for the values of a stored step. Nearly all steps of a run
/// share one layout. Not thread-safe.
class KeyLayouts {
 public:
  explicit KeyLayouts(Database& database) : database_(database) {}

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

/// View of a step's values in a blob. The blob need not be aligned.
class PackedDoubles {
 public:
  explicit PackedDoubles(std::string_view bytes) : bytes_(bytes) {}
  std::size_t size() const { return bytes_.size() / sizeof(double); }
  double operator[](std::size_t index) const;

 private:
  std::string_view bytes_;
};

}  // namespace babelring::store

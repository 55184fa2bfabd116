#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace babelring::store {

/// The sequence numbers that have arrived, as disjoint ranges first -> last. A single range if none is missing.
class SequenceSet {
 public:
  using Ranges = std::map<std::int64_t, std::int64_t>;

  SequenceSet() = default;
  explicit SequenceSet(Ranges ranges) : ranges_(std::move(ranges)) {}

  /// False if it was there already.
  bool insert(std::int64_t sequence);
  /// How many numbers below the greatest are missing (sequences start at 1).
  std::int64_t missing() const;
  std::int64_t size() const;
  const Ranges& ranges() const { return ranges_; }

 private:
  Ranges ranges_;
};

}  // namespace babelring::store

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "server/store/sqlite.h"

namespace babelring::store {

/// A set of sequence numbers, stored as disjoint ranges first → last. It is a single range if none is missing.
class SequenceSet {
 public:
  using Ranges = std::map<std::int64_t, std::int64_t>;

  SequenceSet() = default;
  explicit SequenceSet(Ranges ranges) : ranges_(std::move(ranges)) {}

  /// Returns false if the number was already in the set.
  bool insert(std::int64_t sequence);
  /// Number of missing values between 1 and the highest value.
  std::int64_t missing() const;
  std::int64_t size() const;
  const Ranges& ranges() const { return ranges_; }

 private:
  Ranges ranges_;
};

/// The stored sequence numbers of the records of a rank. Throws SqlFailure.
SequenceSet::Ranges read_arrivals(Database& database, std::int64_t run, std::int64_t attempt, std::int64_t rank);

}  // namespace babelring::store

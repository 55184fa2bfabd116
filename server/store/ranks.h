#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/store/readers.h"
#include "server/store/steps.h"

/// The ranks of an attempt and the records that arrived from them. All functions throw SqlFailure.
namespace babelring::store {

/// A set of sequence numbers, stored as disjoint ranges first → last. It is a single range if none is missing.
class SequenceNumbers {
 public:
  using Ranges = std::map<std::int64_t, std::int64_t>;

  SequenceNumbers() = default;
  explicit SequenceNumbers(Ranges ranges) : ranges_(std::move(ranges)) {}

  /// Returns false if the number was already in the set.
  bool insert(std::int64_t sequence);
  /// Number of missing values between 1 and the highest value.
  std::int64_t missing() const;
  std::int64_t size() const;
  const Ranges& ranges() const { return ranges_; }

 private:
  Ranges ranges_;
};

/// The stored sequence numbers of the records of a rank.
SequenceNumbers::Ranges read_arrivals(Database& database, std::int64_t run, std::int64_t attempt, std::int64_t rank);

struct RankRow {
  std::int64_t rank = 0, attempt = 0, pid = 0, first_update = 0, last_update = 0, updated_ms = 0;
  std::int64_t records = 0, missing = 0;
  std::string host, device;
  double peak_flops = 0, peak_bytes_per_second = 0;  // of the device; 0: not measured
  std::string libraries;                             // LibraryVersions as JSON; empty: unknown
  LastStep last;

  bool on_gpu() const { return device.find("cuda") != std::string::npos || device.find("NVIDIA") != std::string::npos; }
};

/// Ranks of an attempt in ascending order, starting with rank `first`; at most `limit` (-1: all). Without `records`,
/// `missing` and `last`, which list_ranks() reads from further tables.
std::vector<RankRow> list_rank_places(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first = 0,
                                      std::int64_t limit = -1);
std::vector<RankRow> list_ranks(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first = 0,
                                std::int64_t limit = -1);

}  // namespace babelring::store

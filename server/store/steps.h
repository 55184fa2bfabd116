#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/readers.h"

/// Queries of recent steps, pauses and validations, as input for the health verdict of a run.
namespace babelring::store {

struct StepValues {
  std::int64_t step = 0, time_ms = 0;
  std::vector<double> values;  // in the order of the requested keys; NaN for a missing key
};

/// Steps `first` to `last`, inclusive, of one rank in one attempt, in ascending order. Throws SqlFailure.
std::vector<StepValues> read_steps(Reader& reader, std::int64_t run, std::int64_t rank, std::int64_t attempt,
                                   std::int64_t first, std::int64_t last, std::span<const std::string_view> keys);

/// A training pause: an evaluation or a checkpoint.
struct PauseRow {
  bool checkpoint = false;
  std::int64_t step = 0;
  double seconds = 0;
};

/// The newest `limit` pauses of each kind between two steps, ordered by step. Excludes external evaluations, which do
/// not pause training. Throws SqlFailure.
std::vector<PauseRow> recent_pauses(Reader& reader, std::int64_t run, std::int64_t first, std::int64_t last,
                                    std::int64_t limit);

/// A validation made by the training process.
struct ValidationRow {
  std::int64_t step = 0;
  double loss = 0, sacrebleu = 0;  // NaN if absent or not finite
};

/// The newest `limit` validations on the set `valid_set`, or on the most recently used set if there are none on
/// `valid_set`. Ordered by step. Excludes validations of updates that a later rollback has discarded. Throws
/// SqlFailure.
std::vector<ValidationRow> recent_validations(Reader& reader, std::int64_t run, std::string_view valid_set,
                                              std::size_t limit);

/// The newest error line among the unpacked lines of the run's log; empty: none. Throws SqlFailure.
std::string last_error(Reader& reader, std::int64_t run);

}  // namespace babelring::store

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/readers.h"

/// Reads of the single steps of one attempt, from which it is judged how a run is doing.
namespace babelring::store {

struct StepValues {
  std::int64_t step = 0, time_ms = 0;
  std::vector<double> values;  // in the order of the requested keys; NaN if the step lacks one
};

/// Steps `first` to `last` of one rank in one attempt, in ascending order. Throws SqlFailure.
std::vector<StepValues> read_steps(Reader& reader, std::int64_t run, std::int64_t rank, std::int64_t attempt,
                                   std::int64_t first, std::int64_t last, std::span<const std::string_view> keys);

/// An evaluation or checkpoint, which interrupts training.
struct PauseRow {
  bool checkpoint = false;
  std::int64_t step = 0;
  double seconds = 0;
};

/// The newest `limit` of each kind between two steps, in ascending order of steps; without evaluations made outside the
/// training, which cost it no time. Throws SqlFailure.
std::vector<PauseRow> recent_pauses(Reader& reader, std::int64_t run, std::int64_t first, std::int64_t last,
                                    std::int64_t limit);

/// A validation by the training itself.
struct ValidationRow {
  std::int64_t step = 0;
  double loss = 0, sacrebleu = 0;  // NaN where they are not finite or absent
};

/// The newest `limit` on the set that the run's configuration names, or where none was on that, on the set of the
/// newest; in ascending order of steps, without those of updates from which training went back since. Throws
/// SqlFailure.
std::vector<ValidationRow> recent_validations(Reader& reader, std::int64_t run, std::string_view valid_set,
                                              std::size_t limit);

/// The newest line of level error in the run's log, of those that are not packed yet; empty: none. Throws SqlFailure.
std::string last_error(Reader& reader, std::int64_t run);

}  // namespace babelring::store

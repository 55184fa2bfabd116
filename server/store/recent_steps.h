#pragma once

#include <cstdint>
#include <span>
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

}  // namespace babelring::store

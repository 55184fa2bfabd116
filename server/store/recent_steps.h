#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "server/store/readers.h"

/// Reads of single steps of one attempt, for those who judge how a run is doing.
namespace babelring::store {

struct StepValues {
  std::int64_t step = 0, time_ms = 0;
  std::vector<double> values;  // in the order of the keys asked for; NaN where the step lacks one
};

/// Steps `first` to `last` of one rank in one attempt, by rising step. Throws SqlFailure.
std::vector<StepValues> read_steps(Reader& reader, std::int64_t run, std::int64_t rank, std::int64_t attempt,
                                   std::int64_t first, std::int64_t last, std::span<const std::string_view> keys);

/// An evaluation or a checkpoint of a run.
struct PauseRow {
  bool checkpoint = false;
  std::int64_t step = 0;
  double seconds = 0;
};

/// The newest `limit` of each kind between two steps, by rising step; without evaluations made beside the training,
/// which took it no time. Throws SqlFailure.
std::vector<PauseRow> recent_pauses(Reader& reader, std::int64_t run, std::int64_t first, std::int64_t last,
                                    std::int64_t limit);

}  // namespace babelring::store

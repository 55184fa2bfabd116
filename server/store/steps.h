#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/metrics.h"
#include "server/store/readers.h"

/// Reads single steps.
namespace babelring::store {

/// The newest step of a run or rank, with its values by metric key.
struct LastStep {
  std::int64_t step = 0, time_ms = 0;
  std::map<std::string, double> values;
  double value(const std::string& key) const {
    const auto found = values.find(key);
    return found == values.end() ? absent : found->second;
  }
};

/// The newest step of a rank in its newest attempt; step 0 if it has none. Throws SqlFailure.
LastStep last_step(Reader& reader, std::int64_t run, std::int64_t rank);

struct StepValues {
  std::int64_t step = 0, time_ms = 0;
  std::vector<double> values;  // in the order of the requested keys; NaN for a missing key
};

/// Steps `first` to `last`, inclusive, of one rank in one attempt, in ascending order. Throws SqlFailure.
std::vector<StepValues> read_steps(Reader& reader, std::int64_t run, std::int64_t rank, std::int64_t attempt,
                                   std::int64_t first, std::int64_t last, std::span<const std::string_view> keys);

/// Position of an export: the last exported step.
struct ExportCursor {
  std::int64_t rank = 0, attempt = 0, step = 0;
};
/// All keys of the run's steps, in order of first appearance.
std::vector<std::string> all_keys(Reader& reader, std::int64_t run);
/// Appends CSV lines `rank,attempt,step,time_ms,values…` for the steps after the cursor, and advances the cursor. Stops
/// after `rows` lines or about 1 MiB. Returns false at the end.
bool export_rows(Reader& reader, std::int64_t run, const std::vector<std::string>& keys, std::size_t rows,
                 ExportCursor& cursor, std::string& csv);

}  // namespace babelring::store

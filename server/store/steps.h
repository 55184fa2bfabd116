#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/metrics.h"
#include "server/store/readers.h"

namespace babelring::store {

// Reads single steps.

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

// Records of a whole run, for its report. All functions throw SqlFailure.

/// A lifecycle event of a rank.
struct LifecycleRow {
  std::int64_t attempt = 0, rank = 0, time_ms = 0;
  std::string name, detail;
};

/// The oldest `limit` events of rank 0, and failures of any rank, by attempt and time.
std::vector<LifecycleRow> list_lifecycle(Reader& reader, std::int64_t run, std::int64_t limit);

/// Where a run's folder lies, as far as the database knows.
struct RunLocation {
  std::int64_t number = 0;
  std::string id;
  std::string folder;      // that the server chose; empty: started by hand
  std::string checkpoint;  // folder of a checkpoint, RUN/checkpoints/NAME; empty: none
};

/// Whether a run with this id is or was in the database, a deleted or purged one included.
bool is_or_was_run(Reader& reader, const std::string& id);

/// Runs that are not over, or that ended at `since_ms` or later.
std::vector<RunLocation> places_of_runs(Reader& reader, std::int64_t since_ms);

/// An evaluation as its rank reported it.
struct ReportedEval {
  std::int64_t attempt = 0, time_ms = 0;
  std::string body;  // JSON object of the EvalRecord without its samples
};

/// The newest `limit` evaluations, oldest first.
std::vector<ReportedEval> list_reported_evals(Reader& reader, std::int64_t run, std::int64_t limit);

/// LifecycleRecord::data of the run (JSON); empty if unknown.
std::string training_data_of(Reader& reader, std::int64_t run);

// The ranks of an attempt and the records that arrived from them. All functions throw SqlFailure.

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

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/store/readers.h"

/// Records of a whole run, for its report. All functions throw SqlFailure.
namespace babelring::store {

/// A lifecycle event of a rank.
struct LifecycleRow {
  std::int64_t attempt = 0, rank = 0, time_ms = 0;
  std::string name, detail;
};

/// The oldest `limit` events of rank 0, and failures of any rank, by attempt and time.
std::vector<LifecycleRow> list_lifecycle(Reader& reader, std::int64_t run, std::int64_t limit);

/// Where a run's folder lies, as far as the database knows.
struct RunPlace {
  std::int64_t number = 0;
  std::string id;
  std::string folder;      // that the server chose; empty: started by hand
  std::string checkpoint;  // folder of a checkpoint, RUN/checkpoints/NAME; empty: none
};

/// Runs that are not over, or that ended at `since_ms` or later.
std::vector<RunPlace> places_of_runs(Reader& reader, std::int64_t since_ms);

/// An evaluation as its rank reported it.
struct ReportedEval {
  std::int64_t attempt = 0, time_ms = 0;
  std::string body;  // JSON object of the EvalRecord without its samples
};

/// The newest `limit` evaluations, oldest first.
std::vector<ReportedEval> list_reported_evals(Reader& reader, std::int64_t run, std::int64_t limit);

/// LifecycleRecord::data of the run (JSON); empty if unknown.
std::string training_data_of(Reader& reader, std::int64_t run);

}  // namespace babelring::store

#pragma once

#include <filesystem>
#include <map>

#include "base/records/records.h"
#include "insight/report/run_history.h"

namespace babelring::insight {

/// Collects the records of a run. Memory is bounded by StepThinning.
class HistoryCollector {
 public:
  /// Records of one rank must come in the order of their attempts and sequences; the order of the ranks is free.
  void add(const Record& record);
  RunHistory finish() &&;

 private:
  void add(const RecordHeader& header, const StepRecord& step);
  void add(const RecordHeader& header, const EvalRecord& eval);
  void add(const RecordHeader& header, const CheckpointRecord& checkpoint);
  void add(const RecordHeader& header, const LifecycleRecord& lifecycle);
  void add(const RecordHeader&, const LogRecord&) {}
  void add(const RecordHeader&, const ArtifactRecord&) {}
  void thin();

  RunHistory history_;
  std::map<std::int64_t, RankHistory> ranks_;
  std::map<std::string, HistoryCheckpoint> checkpoints_;  // by name
  std::int64_t last_update_ = 0;
  std::size_t steps_ = 0, thin_at_ = 4 * static_cast<std::size_t>(StepThinning::max_steps);
};

/// The history in a run's folder: all spools of all attempts, of the ranks whose spools the folder has. Skips lines
/// that are no JSON, as the last line of a rank that was killed. Throws UsageFailure if the folder has no spool of rank
/// 0, Failure, naming file and line, if a record is damaged.
RunHistory read_spooled_history(const std::filesystem::path& run);

}  // namespace babelring::insight

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/records/library_versions.h"
#include "base/records/records.h"
#include "insight/steps.h"

/// A run's report: questions about the run, answered from its records.
namespace babelring::insight {

/// One update as one rank reported it. Members and units are those of the step record (docs/formats.md).
struct HistoryStep : verdict::Step {
  std::int64_t attempt = 1;
  double network_rx_bytes = 0, flops = 0, power_w = 0, power_limit_w = 0;
  double utilization_percent = 0;  // 0: unknown
  double source_tokens = 0, update_target_tokens = 0;
  double nll = 0, learning_rate = 0, epoch = 0;
};

/// Calls `value(key, member)` for each number of a step, with its metric key.
template <class Step, class Visitor>
void visit_values(Step& step, Visitor&& value) {
  for (const StepTimesMember& member : step_times_members) value(member.key, step.times.*member.value);
  value("communication_bytes", step.communication_bytes);
  value("network_tx_bytes", step.network_tx_bytes);
  value("network_link_bytes_per_second", step.network_link_bytes_per_second);
  value("busy_fraction", step.busy_fraction);
  value("network_rx_bytes", step.network_rx_bytes);
  value("flops", step.flops);
  value("power_w", step.power_w);
  value("power_limit_w", step.power_limit_w);
  value("gpu.utilization_percent", step.utilization_percent);
  value("source_tokens", step.source_tokens);
  value("target_tokens", step.target_tokens);
  value("update_target_tokens", step.update_target_tokens);
  value("nll", step.nll);
  value("learning_rate", step.learning_rate);
  value("epoch", step.epoch);
}

/// The step of a record.
HistoryStep history_step(std::int64_t attempt, std::int64_t time_ms, const StepRecord& record);

/// The steps of one rank.
struct RankHistory {
  std::int64_t rank = 0;
  std::string host, device;   // of the newest attempt
  LibraryVersions libraries;  // of the newest attempt
  double peak_flops = 0, peak_bytes_per_second = 0;
  std::vector<HistoryStep> steps;  // by rising update, without those that were done again later
};

/// A lifecycle event of rank 0, or the failure of any rank.
struct LifecycleEvent {
  std::int64_t attempt = 1, time_ms = 0;
  std::string event, detail;
};

struct HistoryEval {
  std::int64_t attempt = 1, time_ms = 0;
  EvalRecord eval;  // without samples and resamples
};

struct HistoryCheckpoint {
  std::int64_t time_ms = 0;
  CheckpointRecord checkpoint;
};

/// The records of a run, bounded in size for a run of any length. Made from spools (spooled_history.h) or from the
/// server's database; complete_history() makes both equal.
struct RunHistory {
  std::string run, name, version, config, end;
  std::int64_t attempt = 1, world_size = 0, parameters = 0, max_updates = 0;
  bool may_end_sooner = false;
  double bucket_mb = 0;                                            // LifecycleRecord::bucket_mb
  std::string optimizer;                                           // LifecycleRecord::optimizer
  json::value data;                                                // LifecycleRecord::data
  std::vector<LifecycleEvent> events;                              // by attempt and time
  std::vector<RankHistory> ranks;                                  // by rank
  std::vector<HistoryEval> evals;                                  // by update and set
  std::vector<HistoryCheckpoint> checkpoints;                      // by update, without removed ones
  std::vector<std::pair<std::int64_t, double>> checkpoint_pauses;  // update, seconds; removed checkpoints too

  const RankHistory* first_rank() const;  // null if rank 0 has no steps
  std::int64_t last_update() const;       // of rank 0; 0: none
  bool of_sequences() const;              // a language model of generated sequences, not a translation of text
};

/// Which steps of a run are kept: all of a short run. Of a long run the newest, and of the others every 2nd, 4th, …
/// window of 64 updates.
class StepThinning {
 public:
  /// `last_update`: the newest one. `ranks`: number of ranks.
  StepThinning(std::int64_t last_update, std::int64_t ranks);
  bool keeps(std::int64_t rank, std::int64_t update) const;
  /// Number of windows of 64 updates of which one is kept; 1: all steps are.
  std::int64_t stride(std::int64_t rank) const { return rank == 0 ? first_rank_stride_ : other_ranks_stride_; }
  /// The last update before the newest ones, which are all kept.
  std::int64_t oldest_recent() const { return oldest_recent_; }

  static constexpr std::int64_t window = 64, max_steps = 65'536;  // of rank 0, and of all other ranks together

 private:
  std::int64_t first_rank_stride_ = 1, other_ranks_stride_ = 1, oldest_recent_ = 1;
};

/// Sorts, thins, and removes what later records made obsolete: steps, evaluations and checkpoints of updates that were
/// done again, evaluations that were not part of the training, ranks of an earlier, larger world.
void complete_history(RunHistory& history);

/// Input of the verdict: the newest updates of the newest attempt.
verdict::Input verdict_input(const RunHistory& history);

}  // namespace babelring::insight

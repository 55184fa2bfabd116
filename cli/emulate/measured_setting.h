#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/emulate/setup_options.h"
#include "insight/predict/predict.h"

namespace babelring {

/// The steps of a real run, from the spools in its folder.
struct MeasuredRun {
  int hosts = 0, ranks = 0;
  double step_ms = 0;           // median over updates, of the mean over ranks
  insight::StepParts parts;     // medians over updates, of the mean over ranks; the transfer is part of other phases
  double size = 0;              // median target tokens of a rank in an update
  double larger_side = 0;       // median of its source or target tokens, whichever are more
  double sent_bytes = 0;        // median that a rank sent in gradient sums
  double bucket_mb = 0;         // LifecycleRecord::bucket_mb
  std::int64_t parameters = 0;  // LifecycleRecord::parameters
  std::string optimizer;        // LifecycleRecord::optimizer
  std::string config;           // as the run has resolved it; empty: unknown
  std::size_t updates = 0;
};

/// Updates at the start of an attempt that are left out: memory is being mapped, caches are cold.
inline constexpr std::size_t left_out_updates = 3;

/// The model, task and precision of the run, as far as its folder says.
insight::RecordedModel recorded_model(const MeasuredRun& run);

/// True if the run's ranks waited instead of computing (training.device emulated).
bool is_emulated(const MeasuredRun& run);

/// Reads the newest attempt of every rank. Throws UsageFailure if the folder has no spools, if ranks are missing or if
/// fewer than 8 updates remain, Failure if a record is damaged.
MeasuredRun read_measured_run(const std::filesystem::path& run);

/// A measured run, and what predicts it.
struct PairedRun {
  MeasuredRun measured;
  insight::RankRecord record;
  insight::RunSetup setup;
};

/// The runs of one setting, which were measured one after another.
struct MeasuredSetting {
  std::string name;
  std::vector<PairedRun> runs;  // at least one
};

/// Reads the folder of a run, or a folder whose subfolders are runs of one setting. The wire, the buckets, the
/// algorithm and the micro-batches of a run are those of its config.yaml, where it has one. The files rank.json (of
/// `nmt emulate record`), inside.json and between.json (of `nmt emulate link --json`) in the folder of a run replace
/// `record` and the links of `options`: they were measured beside the run. Throws UsageFailure if the ranks of a run
/// are not spread evenly over its hosts, if a file is damaged, or if `emulated` is false and a run is emulated.
MeasuredSetting read_setting(const std::filesystem::path& folder, const SetupOptions& options,
                             const insight::RankRecord& record, bool emulated);

}  // namespace babelring

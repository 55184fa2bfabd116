#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/emulate/measured_run.h"
#include "cli/emulate/setup_options.h"

namespace babelring {

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

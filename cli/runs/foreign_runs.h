#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace babelring {

/// A value of a metric that another program logged.
struct LoggedValue {
  std::string metric;  // as that program names it: "train/loss"
  std::int64_t step = 0;
  std::int64_t time_ms = 0;  // wall clock, ms since 1970 UTC; 0: unknown
  double value = 0;
};

/// A run that another program trained, as its files describe it.
struct ForeignRun {
  std::string form;  // "TensorBoard"
  std::string name;  // in the files, otherwise that of the file or folder
  std::vector<LoggedValue> values;
  std::map<std::string, std::string> settings;  // hyperparameters, as texts
};

/// The forms that read_foreign_runs() knows, for messages.
inline constexpr const char* foreign_forms =
    "a TensorBoard event file or a folder of them, a run's folder of MLflow, trainer_state.json of Hugging Face's "
    "Trainer, a log of Marian or fairseq (--log-format json), JSON lines, or CSV with a column of steps";

/// Reads the runs in a file or folder, whose form it knows by the content. Only a CSV file, as W&B exports a chart, has
/// more than one. Lines of a log that are in no known form are skipped. Throws UsageFailure (file, line, what was found
/// and expected), Failure if a file cannot be read.
std::vector<ForeignRun> read_foreign_runs(const std::filesystem::path& path);

/// Where a column of a CSV file belongs; the metric is empty if it is none.
struct CsvColumn {
  std::string run, metric;
};

/// The metrics of the columns with these names, but for `others`, the step and the time. W&B's chart has columns "RUN -
/// METRIC", "RUN - METRIC__MIN" and "…__MAX"; TensorBoard's download the column "Value", the metric being in the file's
/// name.
std::vector<CsvColumn> describe_columns(const std::vector<std::string>& names, const std::set<std::size_t>& others,
                                        const std::filesystem::path& file);

/// Where the values of a metric go: to the updates, or to the evaluations on a set.
struct Target {
  std::string set;       // name of the set; empty: updates
  std::string quantity;  // "loss", "sacrebleu", …, as --map names it
  auto operator<=>(const Target&) const = default;
  /// As --map names it: "learning_rate", "valid.sacrebleu".
  std::string text() const { return set.empty() ? quantity : fmt::format("{}.{}", set, quantity); }
};

/// A metric of the run, and where it goes.
struct Mapping {
  std::string metric;
  std::optional<Target> target;  // none: it is left out
  std::optional<double> factor;  // by --map, or of the conversion to our unit
  bool chosen = false;           // by --map
  std::string note;              // why it has no target, or has a factor
  std::size_t values = 0;        // number of its values
};

/// The values of each target by step; of two at one step the later.
using Series = std::map<Target, std::map<std::int64_t, double>>;

/// The mappings of all metrics of a run, in order of their names: as `maps` say, otherwise as the names suggest. Of
/// several for one target, the one that was chosen or has the most values has it. `maps`: THEIRS=OURS,
/// THEIRS=OURS*FACTOR, or THEIRS= to leave it out. Throws UsageFailure.
std::vector<Mapping> map_metrics(const ForeignRun& run, const std::vector<std::string>& maps);

/// The values of the mapped metrics in our units: losses in nats, scores from 0 to 100, accuracies from 0 to 1. What
/// was converted is noted in the mappings.
Series mapped_series(const ForeignRun& run, std::vector<Mapping>& mappings);

}  // namespace babelring

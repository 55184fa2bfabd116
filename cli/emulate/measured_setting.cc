#include "cli/emulate/measured_setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/options/usage.h"
#include "insight/steps/config_scalar.h"
#include "insight/steps/input.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// The link in a file of `nmt emulate link --json`; `otherwise` if there is none.
std::string link_beside(const fs::path& file, const std::string& otherwise) {
  if (!fs::exists(file)) return otherwise;
  const Result<json::value> value = parse_json(read_file(file));
  const std::string link = value && value->is_object() ? get_text(value->get_object(), "link") : "";
  if (link.empty()) {
    throw UsageFailure(
        fmt::format("{}: found no member link, expected a file of `nmt emulate link --json`", file.string()));
  }
  return link;
}

/// How the run summed its gradients, by its configuration and its traffic.
void take_from_config(const MeasuredRun& run, insight::RunSetup& setup) {
  const auto scalar = [&run](const char* key) { return verdict::config_scalar(run.config, key); };
  insight::Topology& topology = setup.topology;
  topology.wire = insight::configured_wire(scalar("communication.gradient_wire"));
  const bool sharded = verdict::optimizer_placement(run.config, run.optimizer) == "sharded";
  topology.optimizer = sharded ? insight::Optimizer::sharded : insight::Optimizer::replicated;
  topology.bf16_weights = scalar("training.precision") == "bf16";
  setup.bucket_mb = verdict::bucket_size(run.config, run.bucket_mb, false).mb;
  const std::string path = scalar("communication.all_reduce");
  const bool two_levels = topology.hosts > 1 && (path == "auto" || path == "two_level");
  topology.algorithm = two_levels ? insight::Algorithm::two_level : insight::Algorithm::ring;
  if (topology.hosts == 1 && run.sent_bytes <= 0) topology.algorithm = insight::Algorithm::one_copy;
  const double limit = verdict::number_in(scalar("data.micro_batch_tokens"));
  setup.accumulate = limit > 0 ? std::max(1, static_cast<int>(std::ceil(run.larger_side / limit))) : 1;
}

PairedRun read_paired(const fs::path& folder, SetupOptions options, const insight::RankRecord& record, bool emulated) {
  PairedRun run{.measured = read_measured_run(folder), .record = record, .setup = {}};
  const MeasuredRun& measured = run.measured;
  if (is_emulated(measured) && !emulated) {
    throw UsageFailure(
        fmt::format("{}: the run was emulated, expected a real one; --emulated compares it too", folder.string()));
  }
  if (measured.ranks % measured.hosts != 0) {
    throw UsageFailure(fmt::format("{}: found {} ranks on {} hosts, expected as many on each", folder.string(),
                                   measured.ranks, measured.hosts));
  }
  options.inside = link_beside(folder / "inside.json", options.inside);
  options.between = link_beside(folder / "between.json", options.between);
  std::string record_file = options.record_file;
  if (const fs::path beside = folder / "rank.json"; fs::exists(beside)) {
    record_file = beside.string();
    run.record = read_rank_record(record_file);
  }
  if (run.record.unit != "target tokens") {
    throw UsageFailure(fmt::format("{}: its sizes are {}, expected target tokens", record_file, run.record.unit));
  }
  const std::string difference = run.record.difference_from(recorded_model(measured));
  if (!difference.empty()) throw UsageFailure(fmt::format("{} and {}: {}", record_file, folder.string(), difference));
  run.setup = options.with_links(measured.hosts, measured.ranks / measured.hosts);
  if (!measured.config.empty()) take_from_config(measured, run.setup);
  run.setup.sizes = {{measured.size / run.setup.accumulate}};
  return run;
}

}  // namespace

MeasuredSetting read_setting(const fs::path& folder, const SetupOptions& options, const insight::RankRecord& record,
                             bool emulated) {
  std::vector<fs::path> runs;
  if (fs::is_directory(folder) && !fs::exists(folder / "spool")) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (fs::exists(entry.path() / "spool")) runs.push_back(entry.path());
    }
    std::ranges::sort(runs);
  }
  runs = runs.empty() ? std::vector{folder} : without_repeats(runs, "--measured");
  MeasuredSetting setting{.name = folder.string(), .runs = {}};
  for (const fs::path& run : runs) setting.runs.push_back(read_paired(run, options, record, emulated));
  return setting;
}

}  // namespace babelring

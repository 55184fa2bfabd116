#include "cli/emulate/measured_setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/options/usage.h"
#include "base/result.h"
#include "cli/trace/spooled_steps.h"
#include "insight/predict/fits.h"
#include "insight/steps.h"

namespace babelring {
namespace {

constexpr std::size_t min_measured_updates = 8;

/// Sums over the ranks of one update.
struct UpdateSums {
  int ranks = 0;
  double step_ms = 0, size = 0, larger_side = 0, sent_bytes = 0;
  insight::StepParts parts;

  void add(const StepRecord& step) {
    ++ranks;
    step_ms += step.times.step;
    size += static_cast<double>(step.target_tokens);
    larger_side += static_cast<double>(std::max(step.source_tokens, step.target_tokens));
    sent_bytes += static_cast<double>(step.communication_bytes);
    for (const StepTimesMember& member : step_part_members) parts.*member.value += step.times.*member.value;
  }
};

/// The newest spool of each rank, from rank 0 to the first that is absent.
std::vector<std::filesystem::path> newest_spools(const std::filesystem::path& run) {
  std::vector<std::filesystem::path> spools = {spools_of(run, 0).back()};
  const std::filesystem::path folder = spools[0].parent_path();
  for (int rank = 1;; ++rank) {
    std::filesystem::path next = folder / fmt::format("rank-{}.jsonl", rank);
    if (!std::filesystem::exists(next)) return spools;
    spools.push_back(std::move(next));
  }
}

template <class Value>
double median_over(const std::vector<UpdateSums>& updates, Value value) {
  std::vector<double> values;
  for (const UpdateSums& update : updates) values.push_back(value(update) / update.ranks);
  return insight::quantiles_of(std::move(values)).median;
}

}  // namespace

insight::RecordedModel recorded_model(const MeasuredRun& run) {
  return {.parameters = run.parameters,
          .task = verdict::config_scalar(run.config, "task"),
          .precision = verdict::config_scalar(run.config, "training.precision")};
}

bool is_emulated(const MeasuredRun& run) {
  return verdict::config_scalar(run.config, "training.device") == "emulated";
}

MeasuredRun read_measured_run(const std::filesystem::path& run) {
  const auto spools = newest_spools(run);
  std::map<std::int64_t, UpdateSums> by_update;
  std::set<std::string> hosts;
  double bucket_mb = 0;
  std::int64_t parameters = 0;
  std::string optimizer;
  for (const auto& spool : spools) {
    for_each_record(spool, [&](const Record& record) {
      if (const auto* life = std::get_if<LifecycleRecord>(&record.body); life != nullptr && life->event == "started") {
        bucket_mb = life->bucket_mb;
        optimizer = life->optimizer;
        parameters = life->parameters;
      }
      const auto* step = std::get_if<StepRecord>(&record.body);
      if (step == nullptr) return;
      hosts.insert(record.header.host);
      by_update[step->update].add(*step);
    });
  }
  MeasuredRun measured{.hosts = static_cast<int>(hosts.size()), .ranks = static_cast<int>(spools.size())};
  measured.bucket_mb = bucket_mb;
  measured.optimizer = optimizer;
  measured.parameters = parameters;
  std::vector<UpdateSums> updates;
  std::size_t seen = 0;
  for (const auto& [number, sums] : by_update) {
    if (seen++ >= left_out_updates && sums.ranks == measured.ranks) updates.push_back(sums);
  }
  if (updates.size() < min_measured_updates) {
    throw UsageFailure(
        fmt::format("{}: found {} updates that all {} ranks reported after the first {}, expected at least {}",
                    run.string(), updates.size(), measured.ranks, left_out_updates, min_measured_updates));
  }
  measured.updates = updates.size();
  const std::filesystem::path config = run / "config.yaml";
  if (std::filesystem::exists(config)) measured.config = read_file(config);
  measured.step_ms = median_over(updates, [](const UpdateSums& sums) { return sums.step_ms; });
  measured.size = median_over(updates, [](const UpdateSums& sums) { return sums.size; });
  measured.larger_side = median_over(updates, [](const UpdateSums& sums) { return sums.larger_side; });
  measured.sent_bytes = median_over(updates, [](const UpdateSums& sums) { return sums.sent_bytes; });
  insight::StepParts::each([&](double insight::StepParts::* part) {
    measured.parts.*part = median_over(updates, [part](const UpdateSums& sums) { return sums.parts.*part; });
  });
  return measured;
}

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
  topology.optimizer = sharded ? OptimizerPlacement::sharded : OptimizerPlacement::replicated;
  topology.bf16_weights = scalar("training.precision") == "bf16";
  setup.bucket_mb = verdict::bucket_size(run.config, run.bucket_mb, false).mb;
  const std::string path = scalar("communication.all_reduce");
  const bool two_levels = topology.hosts > 1 && (path == "auto" || path == "two_level");
  topology.algorithm = two_levels ? AllReduceAlgorithm::two_level : AllReduceAlgorithm::ring;
  if (topology.hosts == 1 && run.sent_bytes <= 0) topology.algorithm = AllReduceAlgorithm::shared_memory;
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

#include "cli/emulate/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "cli/trace/spooled_steps.h"
#include "insight/predict/quantiles.h"
#include "insight/steps/config_scalar.h"

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
    step_ms += step.step_ms;
    size += static_cast<double>(step.target_tokens);
    larger_side += static_cast<double>(std::max(step.source_tokens, step.target_tokens));
    sent_bytes += static_cast<double>(step.communication_bytes);
    parts.data += step.data_ms;
    parts.forward += step.forward_ms;
    parts.backward += step.backward_ms;
    parts.exposed_communication += step.exposed_communication_ms;
    parts.optimizer += step.optimizer_ms;
    parts.other += step.other_ms;
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

}  // namespace babelring

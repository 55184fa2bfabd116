#include "insight/report/run_history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "insight/steps.h"

namespace babelring::insight {
namespace {

constexpr std::int64_t max_recent = 192, min_recent = 32, max_recent_steps = 20'000;  // updates; of all ranks
constexpr std::size_t max_pauses = 9;                                                 // per kind: eight periods

/// The smallest power of two by which `steps` are at most `max_steps`.
std::int64_t stride_of(std::int64_t steps) {
  std::int64_t stride = 1;
  while (steps / stride > StepThinning::max_steps) stride *= 2;
  return stride;
}

/// Keeps the newest of the evaluations of each set that are not followed by one of an earlier or the same update.
void remove_outdated_evals(RunHistory& history) {
  auto& evals = history.evals;
  std::ranges::stable_sort(evals, [](const HistoryEval& a, const HistoryEval& b) {
    return std::tuple(a.attempt, a.time_ms) < std::tuple(b.attempt, b.time_ms);
  });
  std::map<std::string, std::int64_t> next;  // the update of the later evaluation, by set
  std::vector<HistoryEval> kept;
  for (auto each = evals.rbegin(); each != evals.rend(); ++each) {
    const EvalRecord& eval = each->eval;
    const auto later = next.find(eval.set);
    if (!(eval.seconds > 0) || eval.update > history.last_update()) continue;
    if (later != next.end() && eval.update >= later->second) continue;
    next[eval.set] = eval.update;
    kept.push_back(std::move(*each));
  }
  std::ranges::stable_sort(kept, [](const HistoryEval& a, const HistoryEval& b) {
    return std::tie(a.eval.update, a.eval.set) < std::tie(b.eval.update, b.eval.set);
  });
  evals = std::move(kept);
}

void remove_removed_checkpoints(RunHistory& history) {
  auto& checkpoints = history.checkpoints;
  std::ranges::stable_sort(checkpoints, {}, [](const HistoryCheckpoint& each) { return each.checkpoint.update; });
  const auto later = [&](const HistoryCheckpoint& each) { return each.checkpoint.update > history.last_update(); };
  std::erase_if(checkpoints, later);
  history.checkpoint_pauses.clear();
  for (const HistoryCheckpoint& each : checkpoints) {
    const double seconds = each.checkpoint.write_seconds;
    history.checkpoint_pauses.emplace_back(each.checkpoint.update, seconds > 0 ? seconds : 0);
  }
  std::erase_if(checkpoints, [](const HistoryCheckpoint& each) { return each.checkpoint.removed; });
}

verdict::Pause pause_of(const RunHistory& history, verdict::Pause::Kind kind, std::int64_t update, double seconds) {
  verdict::Pause pause{.kind = kind, .update = update, .seconds = seconds};
  const auto& steps = history.first_rank()->steps;
  const auto found = std::ranges::lower_bound(steps, update, {}, [](const HistoryStep& s) { return s.update; });
  if (found == steps.end() || found + 1 == steps.end() || found->update != update) return pause;
  const verdict::Step &before = *found, &after = *(found + 1);
  if (after.update == update + 1) pause.gap_ms = static_cast<double>(after.time_ms - before.time_ms) - after.times.step;
  return pause;
}

bool on_gpus(const RunHistory& history) {
  return std::ranges::any_of(history.ranks, [](const RankHistory& rank) {
    return rank.device.find("cuda") != std::string::npos || rank.device.find("NVIDIA") != std::string::npos;
  });
}

void add_pauses(const RunHistory& history, std::int64_t first, verdict::Input& input) {
  std::vector<verdict::Pause> evaluations, checkpoints;
  for (const HistoryEval& each : history.evals) {
    if (each.eval.update < first) continue;
    evaluations.push_back(pause_of(history, verdict::Pause::Kind::evaluation, each.eval.update, each.eval.seconds));
  }
  for (const auto& [update, seconds] : history.checkpoint_pauses) {
    if (update >= first) checkpoints.push_back(pause_of(history, verdict::Pause::Kind::checkpoint, update, seconds));
  }
  for (auto* pauses : {&evaluations, &checkpoints}) {
    if (pauses->size() > max_pauses) pauses->erase(pauses->begin(), pauses->end() - max_pauses);
    input.pauses.insert(input.pauses.end(), pauses->begin(), pauses->end());
  }
  std::ranges::stable_sort(input.pauses, {}, [](const verdict::Pause& pause) { return pause.update; });
}

}  // namespace

HistoryStep history_step(std::int64_t attempt, std::int64_t time_ms, const StepRecord& record) {
  const auto utilization = record.gpu.find("utilization_percent");
  HistoryStep step;
  step.attempt = attempt;
  step.update = record.update;
  step.time_ms = time_ms;
  step.times = record.times;
  step.communication_bytes = static_cast<double>(record.communication_bytes);
  step.network_rx_bytes = static_cast<double>(record.network_rx_bytes);
  step.network_tx_bytes = static_cast<double>(record.network_tx_bytes);
  step.network_link_bytes_per_second = static_cast<double>(record.network_link_bytes_per_second);
  step.busy_fraction = record.busy_fraction;
  step.skipped = record.skipped;
  step.flops = record.flops;
  step.power_w = record.power_w;
  step.power_limit_w = record.power_limit_w;
  if (utilization != record.gpu.end()) step.utilization_percent = static_cast<double>(utilization->second);
  step.source_tokens = static_cast<double>(record.source_tokens);
  step.target_tokens = static_cast<double>(record.target_tokens);
  step.update_target_tokens = static_cast<double>(record.update_target_tokens);
  step.nll = record.nll;
  step.learning_rate = record.learning_rate;
  step.epoch = record.epoch;
  return step;
}

const RankHistory* RunHistory::first_rank() const {
  return ranks.empty() || ranks.front().rank != 0 || ranks.front().steps.empty() ? nullptr : &ranks.front();
}

std::int64_t RunHistory::last_update() const {
  return first_rank() == nullptr ? 0 : first_rank()->steps.back().update;
}

bool RunHistory::of_sequences() const {
  return verdict::config_scalar(config, "task") == "gssm";
}

StepThinning::StepThinning(std::int64_t last_update, std::int64_t ranks) {
  const std::int64_t others = std::max<std::int64_t>(ranks - 1, 0);
  first_rank_stride_ = stride_of(last_update);
  other_ranks_stride_ = stride_of(others > 0 && last_update > INT64_MAX / others ? INT64_MAX : last_update * others);
  const std::int64_t recent = std::clamp(max_recent_steps / std::max<std::int64_t>(ranks, 1), min_recent, max_recent);
  oldest_recent_ = last_update - recent + 1;
}

bool StepThinning::keeps(std::int64_t rank, std::int64_t update) const {
  return update >= oldest_recent_ || (update - 1) / window % stride(rank) == 0;
}

void complete_history(RunHistory& history) {
  std::ranges::sort(history.ranks, {}, &RankHistory::rank);
  std::erase_if(history.ranks, [&](const RankHistory& rank) {
    return rank.steps.empty() || (history.world_size > 0 && rank.rank >= history.world_size);
  });
  std::int64_t last = 0;
  for (const RankHistory& rank : history.ranks) last = std::max(last, rank.steps.back().update);
  const StepThinning thinning(last, std::max(history.world_size, static_cast<std::int64_t>(history.ranks.size())));
  for (RankHistory& rank : history.ranks) {
    std::erase_if(rank.steps, [&](const HistoryStep& s) { return !thinning.keeps(rank.rank, s.update); });
  }
  const auto by_time = [](const LifecycleEvent& a, const LifecycleEvent& b) {
    return std::tie(a.attempt, a.time_ms) < std::tie(b.attempt, b.time_ms);
  };
  std::ranges::stable_sort(history.events, by_time);
  remove_outdated_evals(history);
  remove_removed_checkpoints(history);
}

verdict::Input verdict_input(const RunHistory& history) {
  verdict::Input input;
  input.facts = {.world_size = history.world_size,
                 .parameters = history.parameters,
                 .attempt = history.attempt,
                 .all_reduce = verdict::config_scalar(history.config, "communication.all_reduce"),
                 .gradient_wire = verdict::config_scalar(history.config, "communication.gradient_wire"),
                 .precision = verdict::config_scalar(history.config, "training.precision"),
                 .optimizer = verdict::optimizer_placement(history.config, history.optimizer),
                 .on_gpus = on_gpus(history),
                 .bucket = verdict::bucket_size(history.config, history.bucket_mb, on_gpus(history))};
  if (history.first_rank() == nullptr) return input;
  const StepThinning thinning(history.last_update(),
                              std::max(history.world_size, static_cast<std::int64_t>(history.ranks.size())));
  for (const RankHistory& rank : history.ranks) {
    if (rank.steps.back().update < thinning.oldest_recent()) continue;  // the rank has stopped reporting
    verdict::RankSteps& of_rank = input.ranks.emplace_back();
    of_rank.rank = rank.rank;
    of_rank.host = rank.host;
    for (const HistoryStep& step : rank.steps) {
      if (step.attempt == history.attempt && step.update >= thinning.oldest_recent()) of_rank.steps.push_back(step);
    }
  }
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const HistoryStep& step : history.first_rank()->steps) {
    if (step.attempt == history.attempt) first = std::min(first, step.update);
  }
  input.facts.first_update = first;
  add_pauses(history, first, input);
  return input;
}

}  // namespace babelring::insight

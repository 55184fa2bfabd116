#include "server/verdict/verdict_input.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "insight/steps.h"
#include "server/store/steps.h"

namespace babelring::verdict {
namespace {

constexpr std::int64_t max_runs_searched = 200, max_steps = 64, warm_up_steps = 3;
constexpr std::size_t min_steps = 8;
constexpr std::array<std::string_view, 16> what_decides = {"model.encoder_layers",
                                                           "model.decoder_layers",
                                                           "model.width",
                                                           "model.heads",
                                                           "model.inner",
                                                           "model.dropout",
                                                           "model.attention_dropout",
                                                           "model.activation_dropout",
                                                           "model.activation",
                                                           "model.norm",
                                                           "model.tied_embeddings",
                                                           "data.tokens_per_update",
                                                           "data.micro_batch_tokens",
                                                           "training.precision",
                                                           "training.threads",
                                                           "communication.gradient_wire"};

std::string this_host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

bool on_same_machines(const store::RunRow& run, const launch::Profile& profile) {
  if (run.profile == profile.name) return true;
  return profile.launcher == "mpirun" && profile.hosts.empty() && run.hosts == std::vector<std::string>{this_host()};
}

bool decided_alike(std::string_view a, std::string_view b) {
  const auto alike = [&](std::string_view key) { return config_scalar(a, key) == config_scalar(b, key); };
  const bool of_sequences = config_scalar(a, "task") == "gssm";
  if (of_sequences && !(alike("task") && alike("data.sequence_length") && alike("data.sequences_per_update"))) {
    return false;
  }
  return std::all_of(what_decides.begin(), what_decides.end(), alike);
}

/// NaN if there are too few steps.
double median_step_ms(store::Reader& reader, const store::RunRow& run) {
  constexpr std::array<std::string_view, 1> keys = {"step_ms"};
  const std::int64_t first = std::max(warm_up_steps + 1, run.last.step - max_steps + 1);
  std::vector<double> found;
  for (const auto& step : store::read_steps(reader, run.number, 0, run.attempt, first, run.last.step, keys)) {
    if (std::isfinite(step.values[0])) found.push_back(step.values[0]);
  }
  if (found.size() < min_steps) return store::absent;
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
  std::nth_element(found.begin(), middle, found.end());
  return *middle;
}

}  // namespace

std::optional<RecordedStepTime> recorded_step_time(store::Reader& reader, const launch::Profile& profile,
                                                   std::string_view config, std::int64_t world_size,
                                                   std::int64_t parameters) {
  const bool emulated = config_scalar(config, "training.device") == "emulated";
  store::RunFilter filter;
  filter.limit = max_runs_searched;
  for (const store::RunRow& row : store::list_runs(reader, filter)) {
    const bool same_size = row.world_size == world_size && (parameters == 0 || row.parameters == parameters);
    if (!same_size || row.emulated != emulated || !on_same_machines(row, profile)) continue;
    const auto run = store::find_run(reader, row.id);  // list items have no configuration
    if (!run || !decided_alike(run->config, config)) continue;
    if (const double step_ms = median_step_ms(reader, *run); std::isfinite(step_ms)) return {{run->id, step_ms}};
  }
  return std::nullopt;
}

namespace {

constexpr std::int64_t max_updates_read = 192;                     // per rank
constexpr std::int64_t min_updates_read = 16;                      // per rank: twice the need of a verdict
constexpr std::int64_t min_updates_behind = 2 * min_updates_read;  // of a rank that reports no more
constexpr std::int64_t max_pauses = 9;                             // per kind: eight periods

/// The times, then the other numbers of a step, in the order of step_of().
constexpr std::array other_keys = {"communication_bytes", "network_tx_bytes", "network_link_bytes_per_second",
                                   "busy_fraction",       "skipped",          "target_tokens"};
constexpr auto keys = [] {
  std::array<std::string_view, step_times_members.size() + other_keys.size()> all;
  std::ranges::transform(step_times_members, all.begin(), &StepTimesMember::key);
  std::ranges::copy(other_keys, all.begin() + step_times_members.size());
  return all;
}();

Step step_of(const store::StepValues& row) {
  Step step{.update = row.step, .time_ms = row.time_ms};
  auto next = row.values.begin();
  for (const StepTimesMember& member : step_times_members) step.times.*member.value = *next++;
  step.communication_bytes = *next++;
  step.network_tx_bytes = *next++;
  step.network_link_bytes_per_second = *next > 0 ? *next : 0;
  step.busy_fraction = *++next;
  step.skipped = *++next > 0;
  step.target_tokens = *++next;
  return step;
}

Facts facts_of(const store::RunRow& run) {
  Facts facts;
  facts.world_size = run.world_size;
  facts.parameters = run.parameters;
  facts.attempt = run.attempt;
  facts.all_reduce = config_scalar(run.config, "communication.all_reduce");
  facts.gradient_wire = config_scalar(run.config, "communication.gradient_wire");
  facts.precision = config_scalar(run.config, "training.precision");
  facts.optimizer = optimizer_placement(run.config, run.optimizer);
  return facts;
}

/// Time from the end of an update to the start of the next, on one rank.
double gap_after(store::Reader& reader, const store::RunRow& run, std::int64_t rank, std::int64_t update) {
  constexpr std::array<std::string_view, 1> step_ms = {"step_ms"};
  const auto pair = store::read_steps(reader, run.number, rank, run.attempt, update, update + 1, step_ms);
  if (pair.size() != 2) return unknown_value;
  return static_cast<double>(pair[1].time_ms - pair[0].time_ms) - pair[1].values[0];
}

/// The newest update that enough ranks have reported.
std::int64_t reached_by_enough(const std::vector<store::RankRow>& ranks) {
  std::vector<std::int64_t> updates;
  for (const auto& rank : ranks) updates.push_back(rank.last_update);
  const auto found = updates.begin() + static_cast<std::ptrdiff_t>(enough_ranks(updates.size()) - 1);
  std::nth_element(updates.begin(), found, updates.end(), std::greater<>());
  return *found;
}

}  // namespace

Input read_input(store::Reader& reader, const store::RunRow& run, std::int64_t max_step_rows) {
  Input input;
  input.facts = facts_of(run);
  auto ranks = store::list_rank_places(reader, run.number, run.attempt);
  input.facts.on_gpus = std::ranges::any_of(ranks, [](const auto& rank) { return rank.on_gpu(); });
  input.facts.bucket = bucket_size(run.config, run.bucket_mb, input.facts.on_gpus);
  std::int64_t newest = 0;
  for (const auto& rank : ranks) newest = std::max(newest, rank.last_update);
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(ranks.size(), 1));
  const std::int64_t updates = std::clamp(max_step_rows / count, min_updates_read, max_updates_read);
  const std::int64_t behind = std::clamp(verdict_step_rows / count, min_updates_behind, max_updates_read);
  // A rank that is far behind has stopped reporting. Including it would move the window into the past.
  std::erase_if(ranks, [&](const auto& rank) { return rank.last_update < std::max<std::int64_t>(newest - behind, 1); });
  if (ranks.empty()) return input;

  input.facts.first_update = ranks.front().first_update;
  const std::int64_t last = reached_by_enough(ranks);
  for (const auto& rank : ranks) {
    RankSteps& of_rank = input.ranks.emplace_back();
    of_rank.rank = rank.rank;
    of_rank.host = rank.host;
    for (const auto& row :
         store::read_steps(reader, run.number, rank.rank, run.attempt, last - updates + 1, last, keys)) {
      of_rank.steps.push_back(step_of(row));
    }
  }
  for (const auto& pause : store::recent_pauses(reader, run.number, input.facts.first_update, last, max_pauses)) {
    input.pauses.push_back({pause.checkpoint ? Pause::Kind::checkpoint : Pause::Kind::evaluation, pause.step,
                            pause.seconds, gap_after(reader, run, ranks.front().rank, pause.step)});
  }
  return input;
}

}  // namespace babelring::verdict

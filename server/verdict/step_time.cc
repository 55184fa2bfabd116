#include "server/verdict/step_time.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "insight/steps/config_scalar.h"
#include "server/store/steps.h"
#include "server/verdict/verdict_input.h"

namespace babelring::verdict {
namespace {

constexpr std::int64_t max_runs_searched = 200, max_steps = 64, warm_up_steps = 3;
constexpr std::size_t min_steps = 8;
constexpr std::array<std::string_view, 15> what_decides = {"model.encoder_layers",
                                                           "model.decoder_layers",
                                                           "model.width",
                                                           "model.heads",
                                                           "model.inner",
                                                           "model.dropout",
                                                           "model.attention_dropout",
                                                           "model.activation_dropout",
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

}  // namespace babelring::verdict

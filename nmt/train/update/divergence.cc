#include "nmt/train/update/divergence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "nmt/metering/host_meter.h"

namespace babelring {
namespace {

constexpr std::size_t shown_digits = 64;
constexpr std::size_t max_named_parameters = 5;

/// The digest of each parameter's master, one behind the other; empty unless this rank `hashes`.
std::string parameter_digests(const ModelReplica& replica, bool hashes) {
  std::string digests;
  if (!hashes) return digests;
  for (const Parameter& parameter : replica.model.parameters().all()) {
    digests += digest_of(replica.backend, parameter.master);
  }
  return digests;
}

/// "encoder.0.attention.qkv.weight on rank 1" for each parameter with ranks that differ from rank 0. Ranks with an
/// empty text share another rank's copy.
std::vector<std::string> differing_parameters(const ModelReplica& replica, const std::vector<std::string>& ranks) {
  std::vector<std::string> found;
  for (const Parameter& parameter : replica.model.parameters().all()) {
    const auto digest = [&](const std::string& of_rank) {
      return std::string_view(of_rank).substr(parameter.index * shown_digits, shown_digits);
    };
    std::vector<std::size_t> different;
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      if (!ranks[rank].empty() && digest(ranks[rank]) != digest(ranks[0])) different.push_back(rank);
    }
    if (different.empty()) continue;
    found.push_back(
        fmt::format("{} on rank{} {}", parameter.name, different.size() == 1 ? "" : "s", fmt::join(different, ", ")));
  }
  return found;
}

/// The text that the first rank of this rank's host gathered.
std::string of_host(const Communicator& communicator, const std::vector<std::string>& ranks) {
  const std::vector<std::string>& hosts = communicator.hosts();
  const auto first = std::find(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(communicator.rank())]);
  return ranks[static_cast<std::size_t>(first - hosts.begin())];
}

RankDigest compare_whole_weights(const ModelReplica& replica, std::int64_t update) {
  Communicator& communicator = replica.communicator;
  const ParameterStore& store = replica.model.parameters();
  const bool one_copy = replica.sharding.shares_copy();
  const bool hashes = !one_copy || communicator.local_rank() == 0;
  const std::string own = hashes ? digest_of(replica.backend, store.masters()) : "";
  if (communicator.size() == 1) return {.weights = own, .difference = ""};
  const std::vector<std::string> ranks = communicator.all_gather(own);
  const std::string weights = one_copy ? of_host(communicator, ranks) : own;
  const auto differs = [&](const std::string& digest) { return !digest.empty() && digest != ranks[0]; };
  if (std::none_of(ranks.begin(), ranks.end(), differs)) return {.weights = weights, .difference = ""};
  std::vector<std::string> parameters =
      differing_parameters(replica, communicator.all_gather(parameter_digests(replica, hashes)));
  const std::size_t all = parameters.size();
  if (all > max_named_parameters) parameters.resize(max_named_parameters);
  return {.weights = weights,
          .difference = fmt::format(
              "update {}: the weights of the ranks differ from rank 0's in {} of {} parameters: {}{}", update, all,
              store.all().size(), fmt::join(parameters, "; "), all > parameters.size() ? "; …" : "")};
}

}  // namespace

RankDigest digest_over_ranks(const ModelReplica& replica, std::int64_t update) {
  const ParameterStore& store = replica.model.parameters();
  RankDigest digest;
  replica.sharding.read_masters(store, [&] { digest = compare_whole_weights(replica, update); });
  return digest;
}

DivergenceWatch::DivergenceWatch(const TrainConfig& config)
    : config_(&config), after_(static_cast<std::int64_t>(config.training.divergence.after.value())) {}

void DivergenceWatch::note(const StepRecord& step) {
  if (!step.skipped) {
    skipped_ = 0;
    last_finite_update_ = step.update;
    last_loss_ = step.loss;
    last_norm_ = step.gradient_norm;
    return;
  }
  if (++skipped_ == after_)
    diverge(step.update, fmt::format("{} consecutive updates had a non-finite gradient", skipped_));
}

void DivergenceWatch::note(const EvalRecord& evaluation) {
  if (after_ == 0 || std::isfinite(evaluation.loss)) return;
  diverge(evaluation.update, fmt::format("the loss on {} is {}", evaluation.set, evaluation.loss));
}

void DivergenceWatch::diverge(std::int64_t update, std::string cause) {
  if (diverged()) return;
  update_ = update;
  cause_ = std::move(cause);
}

std::string DivergenceWatch::description() const {
  const OptimizerConfig& optimizer = config_->optimizer;
  const std::string finite =
      last_finite_update_ == 0
          ? "no update had a finite gradient"
          : fmt::format("the last finite values were loss {:.4g} and gradient norm {:.4g} at update {}", last_loss_,
                        last_norm_, last_finite_update_);
  return fmt::format(
      "{}{}: {}; {}; try a lower optimizer.learning_rate (now {:g}), a longer "
      "optimizer.warm_up (now {}) or optimizer.clip_norm (now {})",
      diverged_prefix, update_, cause_, finite, optimizer.schedule.learning_rate, optimizer.schedule.warm_up.text(),
      optimizer.adam.clip_norm > 0 ? fmt::format("{:g}", optimizer.adam.clip_norm) : "off");
}

}  // namespace babelring

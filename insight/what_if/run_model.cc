#include "insight/what_if/run_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>
#include <set>

namespace babelring::insight {
namespace {

using verdict::median;
using verdict::UpdateSplit;

constexpr double assumed_latency_us = 50, assumed_inside_gbit = 100, assumed_link_gbit = 1, assumed_bucket_mb = 25;
constexpr double data_bound_fraction = 0.02;  // above, making batches limits the step
constexpr double min_error = 0.005;
constexpr std::uint64_t seed = 1;
constexpr double max_rank_sums = 10'000;  // in a simulation, so that an answer takes some milliseconds

/// The median of a member of the window's steps over all ranks.
double median_of_steps(const verdict::Input& input, const std::vector<UpdateSplit>& window,
                       double verdict::Step::* member) {
  std::vector<double> values;
  for (const verdict::RankSteps& rank : input.ranks) {
    for (const verdict::Step& step : rank.steps) {
      if (step.update >= window.front().update && std::isfinite(step.*member)) values.push_back(step.*member);
    }
  }
  return median(std::move(values));
}

StepParts measured_parts(const std::vector<UpdateSplit>& window) {
  StepParts parts;
  static_cast<StepTimes&>(parts) = verdict::median_times(window);
  parts.waiting_for_slowest =
      verdict::median_over(window, [](const UpdateSplit& update) { return update.straggler_ms; });
  parts.exposed_communication += parts.waiting_for_slowest;
  return parts;
}

/// Each rank's compute time over the median of all ranks in the same update; with one rank, over its own median.
std::vector<double> jitter_of(const verdict::Input& input, const std::vector<UpdateSplit>& window) {
  std::map<std::int64_t, std::vector<double>> by_update;
  for (const verdict::RankSteps& rank : input.ranks) {
    for (const verdict::Step& step : rank.steps) {
      if (step.update >= window.front().update) by_update[step.update].push_back(step.times.compute());
    }
  }
  std::vector<double> all, factors;
  for (const auto& [update, times] : by_update) all.insert(all.end(), times.begin(), times.end());
  const double typical = median(all);
  for (const auto& [update, times] : by_update) {
    const double middle = input.ranks.size() > 1 ? median(times) : typical;
    for (const double time : times) {
      if (middle > 0) factors.push_back(time / middle);
    }
  }
  return factors;
}

/// The figures of a run are those of its median update, so those of its predictions are, too: a few slow updates raise
/// the mean.
void describe_median_update(Prediction& prediction) {
  if (prediction.step_ms.mean <= 0) return;
  const double factor = prediction.step_ms.median / prediction.step_ms.mean;
  StepParts& parts = prediction.parts;
  StepParts::each([&](double StepParts::* part) { parts.*part *= factor; });
  prediction.size_per_s /= factor;
  prediction.step_ms.mean = prediction.step_ms.median;
}

void scale_optimizer(RankRecord& record, double factor) {
  for (PhaseTime& time : record.times) {
    if (time.phase == "optimizer") time.ms *= factor;
  }
  for (OpRecord& op : record.ops) {
    if (op.phase != "optimizer") continue;
    for (double* each : {&op.fixed_ms, &op.ms_per_gflop, &op.ms_per_gb}) *each *= factor;
  }
}

}  // namespace

RunModel::RunModel(const WhatIfRun& run, const std::vector<UpdateSplit>& window)
    : run_(run), window_(window), measured_(measured_parts(window)) {
  find_ranks();
  make_record();
  find_algorithm();
  fit_link();
  fit_readiness();
}

void RunModel::find_ranks() {
  std::set<std::string> hosts;
  for (const verdict::RankSteps& rank : run_.input.ranks) hosts.insert(rank.host);
  const auto seen = static_cast<std::int64_t>(run_.input.ranks.size());
  const auto h = std::max<std::int64_t>(1, static_cast<std::int64_t>(hosts.size()));
  const std::int64_t ranks = std::max(seen, facts().world_size);
  setup_.topology.hosts = static_cast<int>(h);
  setup_.topology.ranks_per_host = static_cast<int>(std::max<std::int64_t>(1, ranks / h));
  if (ranks % h != 0) {
    assumed_.push_back(
        fmt::format("{} ranks on each of {} hosts; the run has {} ranks", setup_.topology.ranks_per_host, h, ranks));
  }
}

void RunModel::make_record() {
  record_.unit = "target tokens";
  record_.quality = "good";
  const double tokens = median_of_steps(run_.input, window_, &verdict::Step::target_tokens);
  record_.size = tokens > 0 ? tokens : 1;
  record_.parameters = facts().parameters;
  record_.times = {{"forward", record_.size, measured_.forward},
                   {"backward", record_.size, measured_.backward},
                   {"optimizer", record_.size, measured_.optimizer}};
  record_.jitter = jitter_of(run_.input, window_);
  find_buckets();
  setup_.topology.wire = configured_wire(facts().gradient_wire);
  const bool sharded = facts().optimizer == "sharded";
  if (sharded && facts().on_gpus) assumed_.emplace_back("each GPU keeps all moments");
  setup_.topology.optimizer =
      sharded && !facts().on_gpus ? OptimizerPlacement::sharded : OptimizerPlacement::replicated;
  setup_.topology.bf16_weights = facts().precision != "f32";
  const double total = measured_.total();
  if (measured_.data > data_bound_fraction * total) {
    record_.make_batch_ms = {total};
  } else {
    data_ms_ = measured_.data;
  }
  record_.other_ms = {measured_.other + data_ms_};
  if (is_profiled()) use_profile(*run_.profile);
}

void RunModel::find_buckets() {
  const verdict::BucketSize& bucket = facts().bucket;
  setup_.bucket_mb = bucket.mb > 0 ? bucket.mb : assumed_bucket_mb;
  if (bucket.mb <= 0) {
    assumed_.push_back(fmt::format("buckets of {} MB: the records do not say", assumed_bucket_mb));
  } else if (bucket.source == verdict::BucketSize::Source::assumed) {
    assumed_.push_back(fmt::format(
        "buckets of {} MB: communication.bucket_mb is auto, and the records do not say what was chosen", bucket.mb));
  }
  record_.buckets = even_buckets(facts().parameters, setup_.bucket_mb);
}

/// Takes the times of ops, their variation, and when the gradients are complete from the profile.
void RunModel::use_profile(const RankRecord& profile) {
  record_.ops = profile.ops;
  record_.times = profile.times;
  record_.jitter = profile.jitter;
  record_.quality = profile.quality;
  record_.buckets = rebucketed(profile.buckets, setup_.bucket_mb);
  assumed_.push_back(fmt::format("computing takes as long as in the run's profile of {} updates, made on {}",
                                 profile.jitter.size(), profile.date));
}

/// The algorithm whose bytes are nearest to those that ranks report.
void RunModel::find_algorithm() {
  Topology& topology = setup_.topology;
  if (topology.ranks() < 2) return;
  const double sent = median_of_steps(run_.input, window_, &verdict::Step::communication_bytes) * 1e-6;
  if (topology.hosts == 1) {
    topology.algorithm = sent > 0 ? AllReduceAlgorithm::ring : AllReduceAlgorithm::shared_memory;
    // Each rank updated its shard only; the record is of the whole model.
    if (sent <= 0) scale_optimizer(record_, topology.ranks());
    return;
  }
  const bool chosen = facts().all_reduce == "auto" || facts().all_reduce == "two_level";
  const bool one_each = topology.ranks_per_host == 1;  // then the worker also takes the tree or ring of two levels
  if (topology.shards_optimizer()) scale_optimizer(record_, topology.hosts);  // as above
  if (topology.shards_optimizer() || one_each) {
    const bool levels = !one_each || (chosen && !facts().on_gpus);
    topology.algorithm = levels ? AllReduceAlgorithm::two_level : AllReduceAlgorithm::ring;
    return;
  }
  Topology ring = topology, levels = topology;
  ring.algorithm = AllReduceAlgorithm::ring;
  levels.algorithm = AllReduceAlgorithm::two_level;
  const double all = record_.gradient_megabytes();
  const double by_ring = rank_megabytes(ring, all), by_levels = host_megabytes(levels, all) / topology.ranks_per_host;
  const bool nearer = sent > 0 && std::abs(std::log(sent / by_levels)) < std::abs(std::log(sent / by_ring));
  topology.algorithm = nearer ? AllReduceAlgorithm::two_level : AllReduceAlgorithm::ring;
}

double RunModel::sums_ms(const Topology& topology) const {
  if (topology.algorithm == AllReduceAlgorithm::shared_memory) return sum_ms(topology, record_.gradient_megabytes());
  double sum = 0;
  for (const Bucket& bucket : record_.buckets) {
    sum += sum_ms(topology, bucket.megabytes) + gather_ms(topology, bucket.megabytes);
  }
  return sum;
}

/// The rate of the slowest link that a rank reports; 0: unknown.
double RunModel::nominal_gbit() const {
  double slowest = 0;
  for (const verdict::RankSteps& rank : run_.input.ranks) {
    if (rank.steps.empty()) continue;
    const double rate = rank.steps.back().network_link_bytes_per_second * 8e-9;
    if (rate > 0 && (slowest == 0 || rate < slowest)) slowest = rate;
  }
  return slowest;
}

/// Finds the rate at which the sums take as long as measured.
void RunModel::fit_link() {
  Topology& topology = setup_.topology;
  topology.inside = {.gbit_per_s = assumed_inside_gbit, .latency_us = 0};
  topology.between = {.gbit_per_s = assumed_link_gbit, .latency_us = assumed_latency_us};
  if (topology.ranks() < 2 || record_.buckets.empty()) return;
  const double communication = measured_.communication;
  const double waits = measured_.waiting_for_slowest;
  const double target = std::max(communication - waits, measured_.exposed_communication - waits);
  Link& link = topology.hosts > 1 ? topology.between : topology.inside;
  if (topology.hosts > 1) {
    assumed_.push_back(fmt::format("a message between hosts takes {} us beside its bytes", assumed_latency_us));
    if (topology.ranks_per_host > 1) {
      assumed_.push_back(fmt::format("ranks of a host exchange {} Gbit/s", assumed_inside_gbit));
    }
  }
  if (target <= 0) {
    link.gbit_per_s = INFINITY;
    return;
  }
  link.gbit_per_s = 1e6;
  if (sums_ms(topology) > target) link.latency_us = 0;
  double low = 1e-4, high = 1e6;
  for (int i = 0; i < 60; ++i) {
    link.gbit_per_s = std::sqrt(low * high);
    (sums_ms(topology) > target ? low : high) = link.gbit_per_s;
  }
  if (topology.hosts > 1) {
    assumed_.push_back(fmt::format("the link between hosts carries {:.3g} Gbit/s, as the measured sums took {:.4g} ms",
                                   link.gbit_per_s, target));
  }
}

/// The records do not say when gradients are complete. Evenly over backward is too early where an embedding table,
/// whose gradient comes last, is a large part of the model: then all are delayed until as much is exposed as measured.
void RunModel::fit_readiness() {
  const Topology& topology = setup_.topology;
  const double target = measured_.exposed_communication - measured_.waiting_for_slowest;
  if (record_.buckets.empty() || topology.ranks() < 2 || topology.algorithm == AllReduceAlgorithm::shared_memory)
    return;
  const auto delayed = [](double ready, double delay) { return ready + delay * (1 - ready); };
  const auto exposed = [&](double delay) {
    double end = 0, arrived = 0, waited = 0;
    for (const Bucket& bucket : record_.buckets) {
      end = std::max(end, delayed(bucket.ready, delay) * measured_.backward) + sum_ms(topology, bucket.megabytes);
    }
    for (const Bucket& bucket : std::views::reverse(record_.buckets)) {
      arrived += gather_ms(topology, bucket.megabytes);
      waited = std::max(waited, arrived - (1 - delayed(bucket.ready, delay)) * measured_.forward);
    }
    return end - measured_.backward + waited;
  };
  if (is_profiled() || exposed(0) >= target) return;
  double low = 0, high = 1;
  for (int i = 0; i < 30; ++i) {
    const double middle = (low + high) / 2;
    (exposed(middle) < target ? low : high) = middle;
  }
  for (Bucket& bucket : record_.buckets) bucket.ready = delayed(bucket.ready, high);
  assumed_.push_back(fmt::format("gradients are complete from {:.0f} % of backward on, as much of the sums is exposed",
                                 100 * record_.buckets.front().ready));
}

Result<RunSetup> RunModel::changed(const WhatIfChange& change, std::vector<std::string>& assumed,
                                   std::vector<std::string>& warnings) const {
  RunSetup setup = setup_;
  Topology& topology = setup.topology;
  topology.hosts = change.hosts.value_or(topology.hosts);
  topology.ranks_per_host = change.ranks_per_host.value_or(topology.ranks_per_host);
  const std::int64_t ranks = static_cast<std::int64_t>(topology.hosts) * topology.ranks_per_host;
  if (ranks > WhatIfChange::max_ranks) {
    return Error{
        fmt::format("hosts, ranks_per_host: found {} ranks, expected at most {}", ranks, WhatIfChange::max_ranks)};
  }
  if (std::max<std::int64_t>(ranks, setup_.topology.ranks()) > 1 && record_.buckets.empty()) {
    return Error{"the number of parameters is unknown, so the gradients of several ranks are, too"};
  }
  if (change.wire) topology.wire = *change.wire;
  if (change.algorithm) topology.algorithm = *change.algorithm;
  if (topology.algorithm == AllReduceAlgorithm::shared_memory && topology.hosts > 1) {
    if (change.algorithm) {
      return Error{fmt::format("algorithm: found shared_memory with {} hosts, expected 1 host", topology.hosts)};
    }
    topology.algorithm = topology.ranks_per_host > 1 ? AllReduceAlgorithm::two_level : AllReduceAlgorithm::ring;
  }
  if (change.optimizer) topology.optimizer = *change.optimizer;
  if (topology.shards_optimizer() && !topology.can_shard_optimizer()) {
    if (change.algorithm) {
      return Error{fmt::format("algorithm: found {}, expected two_level with optimizer sharded",
                               word_of(algorithm_choices(), topology.algorithm))};
    }
    topology.algorithm = AllReduceAlgorithm::two_level;
  }
  if (change.optimizer == OptimizerPlacement::sharded) {
    if (topology.hosts < 2)
      warnings.emplace_back("one host keeps the optimizer's whole state: sharded changes nothing");
    if (facts().on_gpus)
      warnings.emplace_back("sharded is predicted for hosts without GPUs; GPUs keep shards of the moments only");
  }
  if (change.link_gbit) {
    const double nominal = setup_.topology.hosts > 1 ? nominal_gbit() : 0;
    const double usable = nominal > 0 ? std::min(1.0, setup_.topology.between.gbit_per_s / nominal) : 1;
    topology.between.gbit_per_s = *change.link_gbit * usable;
    if (topology.hosts < 2) warnings.emplace_back("one host uses no link between hosts: link_gbit changes nothing");
    assumed.push_back(usable < 1 ? fmt::format("the new link carries {:.0f} % of its rate, as today's", 100 * usable)
                                 : "the new link carries its full rate");
  } else if (topology.hosts > 1 && setup_.topology.hosts == 1) {
    assumed.push_back(fmt::format("hosts are connected by {} Gbit/s", assumed_link_gbit));
  }
  if (change.latency_us) topology.between.latency_us = *change.latency_us;
  if (change.bucket_mb) setup.bucket_mb = *change.bucket_mb;
  if (change.accumulate) setup.accumulate = *change.accumulate;
  if (change.straggler) setup.straggler = *change.straggler;
  return setup;
}

Prediction RunModel::predict(RunSetup setup, double error) const {
  const double sums = static_cast<double>(record_.buckets.size()) + 8;
  setup.updates = static_cast<std::int64_t>(std::clamp(max_rank_sums / (sums * setup.topology.ranks()), 2.0, 200.0));
  RankRecord record = record_;
  record.compute_error = std::max(std::abs(error), min_error);
  record.step_ranks = setup_.topology.ranks();
  for (Link* link : {&setup.topology.inside, &setup.topology.between})
    link->rate_error = std::min(0.5, record.compute_error);
  Prediction prediction = insight::predict(record, setup, seed);
  prediction.parts.data += data_ms_;
  prediction.parts.other -= data_ms_;
  describe_median_update(prediction);
  return prediction;
}

}  // namespace babelring::insight

#include "insight/verdict/savings.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/gradient_sums.h"
#include "insight/predict/gradient_sum.h"
#include "insight/steps.h"

namespace babelring::verdict {
namespace {

// Latency of one message to the next rank. An all-reduce of 4 KB over two ranks, which is two messages, took 0.04 to
// 0.14 ms over Ethernet between network namespaces; real switches add to it.
constexpr double message_ms = 0.1;
constexpr double gigabit = 125e6;  // bytes per second: the slowest link that a run's hosts are likely to have

/// Send rate of the busiest host while collectives run, in bytes per second.
double host_rate(const Input& input) {
  std::map<std::string, double> rates;
  for (const RankSteps& rank : input.ranks) {
    std::vector<double> of_rank;
    for (const Step& step : rank.steps) {
      if (step.times.communication > 0 && std::isfinite(step.network_tx_bytes)) {
        of_rank.push_back(step.network_tx_bytes / step.times.communication * 1000);
      }
    }
    // All ranks on a host read the same interfaces, so take their maximum.
    double& rate = rates[rank.host];
    rate = std::max(rate, median(std::move(of_rank)));
  }
  double most = 0;
  for (const auto& [host, rate] : rates) most = std::max(most, rate);
  return most;
}

/// Rate of the slowest reported link, in bytes per second; 0 if none is reported.
double link_rate(const Input& input) {
  double slowest = 0;
  for (const RankSteps& rank : input.ranks) {
    std::vector<double> of_rank;
    for (const Step& step : rank.steps) {
      if (step.network_link_bytes_per_second > 0) of_rank.push_back(step.network_link_bytes_per_second);
    }
    const double rate = median(std::move(of_rank));
    if (rate > 0 && (slowest == 0 || rate < slowest)) slowest = rate;
  }
  return slowest;
}

std::map<std::string, std::int64_t> ranks_by_host(const Input& input) {
  std::map<std::string, std::int64_t> ranks;
  for (const RankSteps& rank : input.ranks) ++ranks[rank.host];
  return ranks;
}

}  // namespace

Traffic traffic_of(const Input& input, double exposed_ms, double communication_ms) {
  Traffic traffic;
  traffic.exposed_ms = exposed_ms;
  traffic.communication_ms = communication_ms;
  const std::map<std::string, std::int64_t> hosts = ranks_by_host(input);
  traffic.hosts = std::max<std::int64_t>(static_cast<std::int64_t>(hosts.size()), 1);
  if (traffic.hosts > 1) traffic.bytes_per_second = host_rate(input);
  const double link = link_rate(input);
  traffic.link_known = link > 0;
  if (traffic.bytes_per_second > 0) traffic.link_share = traffic.bytes_per_second / (link > 0 ? link : gigabit);
  const Facts& facts = input.facts;
  if (facts.bucket.mb <= 0 || facts.parameters <= 0 || communication_ms <= 0) return traffic;
  // Buckets hold f32 gradients: 4 bytes per parameter. A ring sends 2 (n-1) messages in sequence for each bucket, where
  // n are the hosts if these have equal numbers of ranks, so that gradients are summed on two levels, else the ranks;
  // between hosts a tree may send fewer.
  traffic.collectives = std::max(1.0, std::ceil(4e-6 * static_cast<double>(facts.parameters) / facts.bucket.mb));
  if (traffic.hosts > 1) {
    const bool equal =
        std::ranges::all_of(hosts, [&](const auto& host) { return host.second == hosts.begin()->second; });
    const auto places = static_cast<int>(equal ? traffic.hosts : facts.world_size);
    const bool may_choose = equal && !facts.on_gpus &&
                            (facts.all_reduce == "auto" || facts.all_reduce == "two_level") &&
                            insight::configured_wire(facts.gradient_wire) == GradientWire::f32;
    const double shard_bytes = facts.bucket.mb * 1e6 * static_cast<double>(traffic.hosts) /
                               static_cast<double>(std::max<std::int64_t>(1, facts.world_size));
    const bool tree = may_choose && tree_is_faster(places, static_cast<std::int64_t>(shard_bytes));
    const double messages = tree ? tree_messages(places) : 2 * (places - 1);
    traffic.latency_fraction = std::min(1.0, traffic.collectives * messages * message_ms / communication_ms);
  }
  return traffic;
}

std::optional<double> saving_ms(const Input& input, const insight::WhatIfChange& change) {
  const auto result = insight::what_if({.input = input}, change);
  if (!result || !result->fits()) return std::nullopt;
  const double now = result->baseline.prediction.step_ms.median;
  const double then = result->predicted.prediction.step_ms.median / change.accumulate.value_or(1);
  return then < now ? std::optional(now - then) : std::nullopt;
}

}  // namespace babelring::verdict

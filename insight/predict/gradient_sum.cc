#include "insight/predict/gradient_sum.h"

#include <algorithm>
#include <cmath>

namespace babelring::insight {
namespace {

/// Time of one step of a ring in which all ranks send at once: the slowest link in use counts.
double ring_step_ms(const Topology& topology, double megabytes) {
  const double inside = topology.ranks_per_host > 1 ? topology.inside.message_ms(megabytes) : 0;
  const double between = topology.hosts > 1 ? topology.between.message_ms(megabytes) : 0;
  return std::max(inside, between);
}

double ring_ms(const Topology& topology, double megabytes) {
  const double n = topology.ranks();
  return 2 * (n - 1) * ring_step_ms(topology, megabytes / n);
}

double tree_ms(const Topology& topology, double megabytes) {
  const double depth = std::ceil(std::log2(topology.ranks()));
  const double segments = std::max(1.0, std::ceil(megabytes / topology.segment_mb));
  return (2 * depth + segments - 1) * ring_step_ms(topology, megabytes / segments);
}

/// Whether the worker sums between hosts by a tree. A reduce-scatter, of which each host gets a shard, does so only
/// between a power of two of hosts.
bool sums_by_tree(const Topology& topology, double megabytes) {
  if (topology.wire != GradientWire::f32) return false;
  if (topology.shards_optimizer() && pairing_hosts(topology.hosts) != topology.hosts) return false;
  const double shard_bytes = megabytes * 1e6 / topology.ranks_per_host;
  return tree_is_faster(topology.hosts, static_cast<std::int64_t>(std::min(shard_bytes, 1e18)));
}

double between_hosts_ms(const Topology& topology, double megabytes) {
  const double h = topology.hosts;
  if (!sums_by_tree(topology, megabytes)) return 2 * (h - 1) * topology.between.message_ms(megabytes / h);
  const int pairing = pairing_hosts(topology.hosts);
  double once = pairing < topology.hosts ? topology.between.message_ms(megabytes) : 0;
  double part = megabytes;
  for (int hosts = 1; hosts < pairing; hosts *= 2) once += topology.between.message_ms(part /= 2);
  return 2 * once;
}

double two_level_ms(const Topology& topology, double megabytes) {
  const double r = topology.ranks_per_host;
  const double inside = r > 1 ? 2 * (r - 1) * topology.inside.message_ms(megabytes / r) : 0;
  return inside + (topology.hosts > 1 ? between_hosts_ms(topology, megabytes) : 0);
}

/// Part of an all-reduce that a sum takes.
double part_of_all_reduce(const Topology& topology) {
  return topology.shards_optimizer() ? 0.5 : 1;
}

/// Megabytes that a rank sends over each kind of link, in the mean over ranks.
struct Sent {
  double inside = 0, between = 0;
};

double in_messages(const Topology& topology, double megabytes) {
  if (topology.algorithm == AllReduceAlgorithm::shared_memory) return megabytes;
  switch (topology.wire) {
    case GradientWire::f32:
      return megabytes;
    case GradientWire::bf16:
      return megabytes / 2;
    case GradientWire::int8:
      return megabytes * 260 / 1024;  // an f32 scale for each 256 elements
  }
  return megabytes;
}

/// In a ring, one rank of each host sends to another host.
Sent sent_in_all_reduce(const Topology& topology, double megabytes) {
  if (topology.ranks() < 2) return {};
  const double n = topology.ranks(), r = topology.ranks_per_host, h = topology.hosts;
  const double sent = in_messages(topology, megabytes);
  const double between = h > 1 ? 1 / r : 0;  // fraction of the ranks
  switch (topology.algorithm) {
    case AllReduceAlgorithm::two_level:
      return {2 * (r - 1) / r * sent, 2 * (h - 1) / h * sent / r};
    case AllReduceAlgorithm::tree:
      return {2 * sent * (1 - between), 2 * sent * between};
    case AllReduceAlgorithm::shared_memory:
      return {(n - 1) / n * sent, 0};
    default:
      return {2 * (n - 1) / n * sent * (1 - between), 2 * (n - 1) / n * sent * between};
  }
}

Sent sent_in_sum(const Topology& topology, double megabytes) {
  const Sent all = sent_in_all_reduce(topology, megabytes);
  const double part = part_of_all_reduce(topology);
  return {part * all.inside, part * all.between};
}

/// Weights are gathered into memory that the ranks of a host have in common.
Sent sent_in_gather(const Topology& topology, double megabytes) {
  const double h = topology.hosts;
  return {0, (h - 1) / h * weights_megabytes(topology, megabytes) / topology.ranks_per_host};
}

double busy_ms_of(const Topology& topology, const Sent& sent) {
  return 1e-3 * (sent.inside * topology.inside.busy_ms_per_gb + sent.between * topology.between.busy_ms_per_gb);
}

}  // namespace

const Choices<AllReduceAlgorithm>& algorithm_choices() {
  using enum AllReduceAlgorithm;
  static const Choices<AllReduceAlgorithm> choices = {
      {"ring", ring}, {"tree", tree}, {"two_level", two_level}, {"shared_memory", shared_memory}, {"staged", staged}};
  return choices;
}

bool is_offered(AllReduceAlgorithm algorithm) {
  return algorithm != AllReduceAlgorithm::tree;
}

const Choices<OptimizerPlacement>& optimizer_choices() {
  static const Choices<OptimizerPlacement> choices = {{"replicated", OptimizerPlacement::replicated},
                                                      {"sharded", OptimizerPlacement::sharded}};
  return choices;
}

bool Topology::can_shard_optimizer() const {
  return algorithm == AllReduceAlgorithm::two_level || (algorithm == AllReduceAlgorithm::ring && ranks_per_host == 1);
}

GradientWire configured_wire(const std::string& word) {
  for (const auto& [known, wire] : wire_choices()) {
    if (known == word) return wire;
  }
  return GradientWire::f32;
}

double sum_ms(const Topology& topology, double megabytes) {
  if (topology.ranks() < 2) return 0;
  const double n = topology.ranks(), sent = in_messages(topology, megabytes);
  switch (topology.algorithm) {
    case AllReduceAlgorithm::ring:
      return part_of_all_reduce(topology) * ring_ms(topology, sent);
    case AllReduceAlgorithm::tree:
      return tree_ms(topology, sent);
    case AllReduceAlgorithm::two_level:
      return part_of_all_reduce(topology) * two_level_ms(topology, sent);
    case AllReduceAlgorithm::shared_memory:
      return topology.inside.message_ms(sent * (n - 1) / n) + topology.inside.latency_us * 1e-3;
    case AllReduceAlgorithm::staged:
      return ring_ms(topology, sent) + 2e-3 * megabytes * topology.device_copy_ms_per_gb;
    default:
      return 0;
  }
}

double weights_megabytes(const Topology& topology, double megabytes) {
  if (!topology.shards_optimizer()) return 0;
  return topology.bf16_weights ? megabytes / 2 : megabytes;
}

double gather_ms(const Topology& topology, double megabytes) {
  if (!topology.shards_optimizer()) return 0;
  const double h = topology.hosts;
  return (h - 1) * topology.between.message_ms(weights_megabytes(topology, megabytes) / h);
}

double host_megabytes(const Topology& topology, double megabytes) {
  if (topology.hosts < 2) return 0;
  const double between = sent_in_sum(topology, megabytes).between + sent_in_gather(topology, megabytes).between;
  return between * topology.ranks_per_host;
}

double rank_megabytes(const Topology& topology, double megabytes) {
  const Sent sum = sent_in_sum(topology, megabytes), gather = sent_in_gather(topology, megabytes);
  return sum.inside + sum.between + gather.between;
}

double busy_ms(const Topology& topology, double megabytes) {
  return busy_ms_of(topology, sent_in_sum(topology, megabytes));
}

double gather_busy_ms(const Topology& topology, double megabytes) {
  return busy_ms_of(topology, sent_in_gather(topology, megabytes));
}

}  // namespace babelring::insight

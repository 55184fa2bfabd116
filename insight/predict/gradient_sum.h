#pragma once

#include <string>

#include "base/gradient_sums.h"

namespace babelring::insight {

/// The algorithms that can be predicted. `shared_memory`: the ranks of one host have one copy of the model, and each
/// sums its shard of all gradients after backward.
const Choices<AllReduceAlgorithm>& algorithm_choices();
/// Whether the worker sums gradients by this algorithm. Predictions for other algorithms carry a warning.
bool is_offered(AllReduceAlgorithm algorithm);
/// replicated and sharded.
const Choices<OptimizerPlacement>& optimizer_choices();
/// The wire of a configuration's communication.gradient_wire; f32 if that is unknown.
GradientWire configured_wire(const std::string& word);

/// A connection between ranks, as each of them sees it, in each direction.
struct Link {
  double gbit_per_s = 10;     // infinity: sending takes no time
  double latency_us = 0;      // of one message
  double busy_ms_per_gb = 0;  // processor time that sending and receiving a gigabyte takes
  double rate_error = 0;      // relative uncertainty of gbit_per_s: the rate is known to ± this part

  /// Time of one message in ms.
  double message_ms(double megabytes) const { return latency_us * 1e-3 + megabytes * 8 / gbit_per_s; }
};

/// The ranks of a run and their connections. Ranks of a host follow each other in the ring.
struct Topology {
  int hosts = 1, ranks_per_host = 1;
  Link inside = {}, between = {};  // between ranks of one host; between hosts, shared by the ranks of a host
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::ring;
  GradientWire wire = GradientWire::f32;
  OptimizerPlacement optimizer = OptimizerPlacement::replicated;
  bool bf16_weights = true;          // that a sharded optimizer sends; false: f32
  double segment_mb = 0.0614;        // of the tree; as the worker's messages
  double device_copy_ms_per_gb = 0;  // of `staged`, each way

  int ranks() const { return hosts * ranks_per_host; }
  /// Whether hosts gather weights. One host keeps the whole state in any case.
  bool shards_optimizer() const { return hosts > 1 && optimizer != OptimizerPlacement::replicated; }
  /// Whether the worker can shard the optimizer with this algorithm.
  bool can_shard_optimizer() const;
};

/// Time in ms of the sum of one bucket with `megabytes` (10^6 bytes) of f32 gradients. 0 for one rank.
/// For S bytes in messages, n ranks on h hosts, latency a, seconds per byte b of the slowest link in use:
/// - ring: 2 (n − 1) (a + b S / n)
/// - tree: (2 ceil(log2 n) + k − 1) (a + b s) for k segments of s bytes
/// - two_level, r ranks on each host: 2 (r − 1) (a + b S / r) inside, and between hosts, where the r sums of a host
///   share its link, as the worker chooses (tree_is_faster()): by a ring 2 (h − 1) (a + b S / h); by a tree over p of
///   the hosts, a power of two, 2 (a log2 p + b S (p − 1) / p), and 2 (a + b S) more if there are other hosts
/// - one copy: each rank reads S of other ranks' memory, f32 always: 2 a + b S (n − 1) / n
/// With a sharded optimizer, only the first half of a ring or of two levels: the reduce-scatter.
double sum_ms(const Topology& topology, double megabytes);
/// Megabytes of the weights that hosts send each other for one bucket with `megabytes` of f32 gradients; 0 unless
/// topology.shards_optimizer().
double weights_megabytes(const Topology& topology, double megabytes);
/// Time in ms in which hosts send each other the weights of this bucket, for W bytes of weights on h hosts:
/// (h − 1) (a + b W / h).
double gather_ms(const Topology& topology, double megabytes);

/// Megabytes that a host sends to other hosts for this bucket, sum and weights; it receives as much.
double host_megabytes(const Topology& topology, double megabytes);
/// Megabytes that one rank sends for this bucket, over any link.
double rank_megabytes(const Topology& topology, double megabytes);
/// Processor time in ms that the messages of this sum take from a rank, in the mean over ranks: what it sends over each
/// link by that link's busy_ms_per_gb.
double busy_ms(const Topology& topology, double megabytes);
/// The same for the bucket's weights.
double gather_busy_ms(const Topology& topology, double megabytes);

}  // namespace babelring::insight

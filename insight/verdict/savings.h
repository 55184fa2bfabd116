#pragma once

#include "insight/verdict/input.h"

namespace babelring::verdict {

/// Network use of a typical step.
struct Traffic {
  double exposed_ms = 0;        // communication that even the slowest rank waits for
  double communication_ms = 0;  // time with collectives in progress, overlapped or not
  double bytes_per_second = 0;  // send rate of the busiest host while collectives are in progress; 0: unknown
  std::int64_t hosts = 1;
  double collectives = 1;  // all-reduces per step, one per bucket
  /// The fraction of communication_ms that message latency explains, 0 to 1.
  double latency_share = 0;
  /// bytes_per_second divided by the link's rate, or by 1 Gbit/s if no host reports its link's rate. NaN if the
  /// traffic is unknown.
  double link_share = unknown_value;
  bool link_known = false;

  /// Whether latency, not bandwidth, limits the collectives: they wait while the link is mostly idle.
  bool waits_for_latency() const { return hosts > 1 && link_share < (link_known ? 0.35 : 0.25); }
};

/// Estimates the network use of a step with these two times.
Traffic traffic_of(const Input& input, double exposed_ms, double communication_ms);

// Savings of a change, in ms per step. Each is a lower estimate from measured times, by the formula given.

/// Sends bf16 instead of f32 gradients: exposed (1 - latency_share) / 2. Half the bytes take half the time. The wait
/// at the end of backward is a backlog of bytes, so at least half of the exposed time that bytes cause goes away.
/// Measured at 1 Gbit/s, bf16 takes 0.49 times as long as f32 for 4 to 100 MB (docs/performance.md).
double bf16_wire_saving_ms(const Traffic& traffic);

/// Doubles the tokens per update: exposed / 2. Each all-reduce covers twice the tokens, so the same number of tokens
/// waits half as long.
double double_update_saving_ms(const Traffic& traffic);

/// Uses buckets of `new_mb` instead of `bucket_mb`: exposed latency_share (1 - bucket_mb / new_mb). The number of
/// messages falls to bucket_mb / new_mb of today's.
double larger_bucket_saving_ms(const Traffic& traffic, double bucket_mb, double new_mb);

}  // namespace babelring::verdict

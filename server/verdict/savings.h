#pragma once

#include "server/verdict/verdict.h"

namespace babelring::verdict {

/// The network's side of a step.
struct Traffic {
  double exposed_ms = 0;        // what even the last rank waits for
  double communication_ms = 0;  // collectives in progress, hidden or not
  double bytes_per_second = 0;  // sent by a host while collectives are in progress; 0: not known
  std::int64_t hosts = 1;
  double collectives = 1;  // buckets of a step
  /// The part of communication_ms that waiting for messages explains, whatever their size: 0 to 1.
  double latency_share = 0;
  /// bytes_per_second divided by the link's rate, or by 1 Gbit/s where no host knows its link's rate. NaN: the
  /// traffic is not known.
  double link_share = not_known;
  bool link_known = false;

  /// Collectives wait although the line is idle for most of that time: for messages, not for bytes.
  bool waits_for_latency() const { return hosts > 1 && link_share < (link_known ? 0.35 : 0.25); }
};

Traffic traffic_of(const Input& input, double exposed_ms, double communication_ms);

// What a change would save, in ms a step. Each is a lower estimate from measured times, by the formula beside it.

/// Half the bytes in flight take half the time. What waits at the end of backward is a backlog of bytes, so at least
/// half of the exposed time that bytes explain goes: exposed (1 - latency_share) / 2. Measured at 1 Gbit/s, bf16 takes
/// 0.49 of f32 for 4 to 100 MB (docs/performance.md).
double bf16_wire_saving_ms(const Traffic& traffic);

/// One all-reduce serves twice the tokens: half of the wait for as many tokens, exposed / 2.
double double_update_saving_ms(const Traffic& traffic);

/// With buckets of `new_mb` instead of `bucket_mb`, bucket_mb / new_mb as many messages wait:
/// exposed latency_share (1 - bucket_mb / new_mb).
double larger_bucket_saving_ms(const Traffic& traffic, double bucket_mb, double new_mb);

}  // namespace babelring::verdict

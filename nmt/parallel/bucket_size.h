#pragma once

#include <cstdint>

#include "nmt/comm/communicator.h"

namespace babelring {

/// Bytes of gradients that hosts reduce together: small, because the ring starts on a bucket while backward computes
/// the next, and a message costs a processor little.
inline constexpr std::int64_t host_bucket_bytes = 4'000'000;

/// A model of the network: an all-reduce of b bytes of f32 gradients takes latency_s + b / bytes_per_s.
struct AllReduceModel {
  double latency_s = 0, bytes_per_s = 0;
};

/// NCCL's ring over `ranks` GPUs on `hosts` hosts, from data sheets, not measured: 2 (n - 1) steps, through NVLink of
/// Hopper's generation within a host and 400 Gbit/s for each GPU between hosts.
AllReduceModel nccl_model(int ranks, int hosts, GradientWire wire);

/// The size of buckets that ends the all-reduces soonest after backward. Of S bytes in buckets of b, S / b latencies
/// L hold up the rest, and the last bucket's b / R starts only when backward is over: S L / b + b / R is least for
/// b = sqrt(S L R). At least host_bucket_bytes, at most `gradient_bytes`.
std::int64_t best_bucket_bytes(std::int64_t gradient_bytes, const AllReduceModel& model);

}  // namespace babelring

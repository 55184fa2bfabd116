#pragma once

#include <cstdint>

#include "nmt/comm/communicator.h"

namespace babelring {

/// Bucket size for all-reduces in host memory. Small, so that the ring reduces a bucket while backward computes the
/// next; messages cost CPUs little.
inline constexpr std::int64_t host_bucket_bytes = 4'000'000;
/// The least that a measured size may be: more messages would cost the CPUs.
inline constexpr std::int64_t min_measured_bucket_bytes = 128'000;

/// Cost model of an all-reduce: b bytes of f32 gradients take latency_s + b / bytes_per_s.
struct AllReduceModel {
  double latency_s = 0, bytes_per_s = 0;
};

/// Cost model of NCCL's ring over `ranks` GPUs on `hosts` hosts: 2 (n - 1) steps over Hopper NVLink within a host, or
/// 400 Gbit/s per GPU between hosts. The constants come from data sheets; they are not measured.
AllReduceModel nccl_model(int ranks, int hosts, GradientWire wire);

/// Cost model of this communicator's all-reduces in host memory, measured: the shortest of several sums of few and of 2
/// MB, averaged over the ranks. Collective; takes as long as three sums of 2 MB and some small ones. The same on all
/// ranks.
AllReduceModel measure_all_reduce(Communicator& communicator);

/// The bucket size that minimizes the time between the end of backward and the end of all-reduces. For S bytes of
/// gradients, latency L and bandwidth R, buckets of b bytes cost S / b latencies, and the last bucket's transfer b / R
/// starts only after backward. S L / b + b / R is minimal at b = sqrt(S L R). The result is limited to `gradient_bytes`
/// and then raised to `min_bytes` if smaller.
std::int64_t best_bucket_bytes(std::int64_t gradient_bytes, const AllReduceModel& model,
                               std::int64_t min_bytes = host_bucket_bytes);

}  // namespace babelring

#include "nmt/parallel/bucket_size.h"

#include <algorithm>
#include <cmath>

namespace babelring {

namespace {

constexpr double start_s = 10e-6;
constexpr double nvlink_step_s = 2e-6, nvlink_bytes_per_s = 360e9;
constexpr double network_step_s = 6e-6, network_bytes_per_s = 40e9;

}  // namespace

AllReduceModel nccl_model(int ranks, int hosts, GradientWire wire) {
  const double steps = 2.0 * (ranks - 1);
  const double bytes_per_s = hosts > 1 ? network_bytes_per_s : nvlink_bytes_per_s;
  const double bytes_on_wire = wire == GradientWire::bf16 ? 0.5 : 1;  // per byte of f32
  return {.latency_s = start_s + steps * (hosts > 1 ? network_step_s : nvlink_step_s),
          .bytes_per_s = bytes_per_s * ranks / std::max(1.0, steps) / bytes_on_wire};
}

std::int64_t best_bucket_bytes(std::int64_t gradient_bytes, const AllReduceModel& model) {
  const double best = std::sqrt(static_cast<double>(gradient_bytes) * model.latency_s * model.bytes_per_s);
  return std::max(host_bucket_bytes, std::min<std::int64_t>(gradient_bytes, std::llround(best)));
}

}  // namespace babelring

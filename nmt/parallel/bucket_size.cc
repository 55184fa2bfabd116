#include "nmt/parallel/bucket_size.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/clock.h"

namespace babelring {

namespace {

constexpr double start_s = 10e-6;
constexpr double nvlink_step_s = 2e-6, nvlink_bytes_per_s = 360e9;
constexpr double network_step_s = 6e-6, network_bytes_per_s = 40e9;
constexpr std::int64_t few_floats = 4096, many_floats = 500'000;
constexpr int small_trials = 10, large_trials = 3;

}  // namespace

AllReduceModel nccl_model(int ranks, int hosts, GradientWire wire) {
  const double steps = 2.0 * (ranks - 1);
  const double bytes_per_s = hosts > 1 ? network_bytes_per_s : nvlink_bytes_per_s;
  const double bytes_on_wire = static_cast<double>(wire_bytes(wire, 1024)) / (1024 * sizeof(float));  // per byte of f32
  return {.latency_s = start_s + steps * (hosts > 1 ? network_step_s : nvlink_step_s),
          .bytes_per_s = bytes_per_s * ranks / std::max(1.0, steps) / bytes_on_wire};
}

AllReduceModel measure_all_reduce(Communicator& communicator) {
  const Buffer memory = communicator.allocate(many_floats * sizeof(float));
  const auto shortest_s = [&](std::int64_t count, int trials) {
    double shortest = std::numeric_limits<double>::infinity();
    for (int trial = 0; trial < trials; ++trial) {
      const Stopwatch watch;
      communicator.all_reduce_start(memory.view({count}, DType::f32));
      communicator.all_reduce_finish();
      shortest = std::min(shortest, watch.elapsed_ms() / 1e3);
    }
    return shortest;
  };
  shortest_s(few_floats, 1);  // opens connections
  const double small_s = shortest_s(few_floats, small_trials), large_s = shortest_s(many_floats, large_trials);
  std::vector<double> sums{small_s, large_s};
  communicator.sum(sums);
  const double latency_s = sums[0] / communicator.size();
  constexpr double bytes = (many_floats - few_floats) * sizeof(float), min_s = 1e-6;
  return {.latency_s = latency_s, .bytes_per_s = bytes / std::max(min_s, sums[1] / communicator.size() - latency_s)};
}

std::int64_t best_bucket_bytes(std::int64_t gradient_bytes, const AllReduceModel& model, std::int64_t min_bytes) {
  const double best = std::sqrt(static_cast<double>(gradient_bytes) * model.latency_s * model.bytes_per_s);
  return std::max(min_bytes, std::min<std::int64_t>(gradient_bytes, std::llround(best)));
}

}  // namespace babelring

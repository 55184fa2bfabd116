#include "nmt/parallel/buckets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
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

GradientBuckets::GradientBuckets(Communicator& communicator, Tensor flat_gradient,
                                 std::vector<ParameterRange> parameters, std::int64_t bucket_bytes,
                                 std::optional<std::size_t> alone)
    : communicator_(communicator),
      gradient_(flat_gradient),
      parameters_(std::move(parameters)),
      bucket_of_(parameters_.size()),
      alone_(alone),
      ready_(parameters_.size()) {
  check_parameters();
  cut(bucket_bytes);
  for (const Bucket& bucket : buckets_) bucket_bytes_.push_back(bucket.count * std::int64_t{sizeof(float)});
  order_.resize(buckets_.size());
  begin();
}

void GradientBuckets::check_parameters() const {
  if (gradient_.dtype != DType::f32 || !gradient_.contiguous()) {
    fail("gradient buckets: the flat gradient is {} {}, expected contiguous f32", name_of(gradient_.dtype),
         gradient_.shape.text());
  }
  std::int64_t end = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto [offset, count] = parameters_[i];
    if (offset != end || count < 0) {
      fail("gradient buckets: parameter {} has {} elements at {}, expected it at {}", i, count, offset, end);
    }
    end += count;
  }
  if (end != gradient_.shape.elements()) {
    fail("gradient buckets: the parameters end at {}, the flat gradient has {} elements", end,
         gradient_.shape.elements());
  }
}

void GradientBuckets::cut(std::int64_t wanted_bytes) {
  const std::int64_t wanted = wanted_bytes / std::int64_t{sizeof(float)};
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const bool full =
        buckets_.empty() || (buckets_.back().count > 0 && buckets_.back().count + parameters_[i].count > wanted);
    if (full || i == alone_ || i + 1 == alone_) buckets_.emplace_back();
    Bucket& bucket = buckets_.back();
    bucket.offset = parameters_[i].offset;
    bucket.count += parameters_[i].count;
    ++bucket.parameters;
    bucket_of_[i] = buckets_.size() - 1;
  }
}

void GradientBuckets::begin(bool alone_first) {
  if (started_ != 0) fail("gradient buckets: begin() with {} of {} buckets in flight", started_, buckets_.size());
  std::fill(ready_.begin(), ready_.end(), false);
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (!alone_first || !alone_) return;
  const auto place = order_.begin() + static_cast<std::ptrdiff_t>(bucket_of_[*alone_]);
  std::rotate(order_.begin(), place, place + 1);
}

void GradientBuckets::mark_ready(std::size_t parameter) {
  if (parameter >= ready_.size()) {
    fail("gradient buckets: parameter {} marked, there are {}", parameter, ready_.size());
  }
  if (ready_[parameter]) fail("gradient buckets: parameter {} marked twice in one update", parameter);
  ready_[parameter] = true;
  --buckets_[bucket_of_[parameter]].missing;
  start_complete_buckets();
}

void GradientBuckets::start_complete_buckets() {
  for (; started_ < order_.size() && buckets_[order_[started_]].missing == 0; ++started_) {
    const Bucket& bucket = buckets_[order_[started_]];
    communicator_.all_reduce_start(Tensor(gradient_.as<float>() + bucket.offset, {bucket.count}, DType::f32));
  }
}

void GradientBuckets::finish() {
  if (const auto unmarked = std::find(ready_.begin(), ready_.end(), false); unmarked != ready_.end()) {
    fail("gradient buckets: finish() but parameter {} of {} was not marked ready", unmarked - ready_.begin(),
         ready_.size());
  }
  communicator_.all_reduce_finish();
  started_ = 0;
}

}  // namespace babelring

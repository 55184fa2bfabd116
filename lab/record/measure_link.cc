#include "lab/record/measure_link.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clock.h"
#include "insight/predict/fits.h"
#include "nmt/parallel/buckets.h"

namespace babelring {

namespace {

constexpr int warm_up_sums = 2, small_sums = 50;
constexpr std::int64_t small_elements = 1024, bucket_elements = host_bucket_bytes / 4;
constexpr double min_busy_ms = 300;  // of the sums whose processor time is measured
constexpr double longer_beside = 2;  // time that a sum beside computing is given, over its time alone

/// Times of all-reduces of the first `elements` elements, as the slower rank measured them, sorted.
std::vector<double> time_sums(Communicator& communicator, float* data, std::int64_t elements, int count) {
  std::vector<double> times;
  for (int i = 0; i < warm_up_sums + count; ++i) {
    communicator.barrier();
    const Stopwatch watch;
    communicator.all_reduce_start(Tensor(data, Shape{elements}, DType::f32));
    communicator.all_reduce_finish();
    if (i >= warm_up_sums) times.push_back(watch.elapsed_ms());
  }
  std::vector<double> both(2 * times.size());
  std::ranges::copy(times, both.begin() + communicator.rank() * std::ssize(times));
  communicator.sum(both);
  for (std::size_t i = 0; i < times.size(); ++i) times[i] = std::max(both[i], both[times.size() + i]);
  std::ranges::sort(times);
  return times;
}

/// Processor time that all-reduces of all elements in buckets take from a rank that computes meanwhile: the larger one
/// of both ranks. A rank that waits polls for messages much more often. As one all-reduce they took `alone_ms`.
double busy_ms_beside_computing(Communicator& communicator, float* data, std::int64_t elements, double alone_ms) {
  const int count = 1 + static_cast<int>(min_busy_ms / alone_ms);
  double spent = 0;
  for (int i = 0; i < count; ++i) {
    communicator.barrier();
    const double before = other_threads_ms();
    const Stopwatch watch;
    for (std::int64_t begin = 0; begin < elements; begin += bucket_elements) {
      const std::int64_t count_here = std::min(bucket_elements, elements - begin);
      communicator.all_reduce_start(Tensor(data + begin, Shape{count_here}, DType::f32));
    }
    while (watch.elapsed_ms() < longer_beside * alone_ms) {
    }
    spent += other_threads_ms() - before;
    communicator.all_reduce_finish();
  }
  std::vector<double> busy(2);
  busy[static_cast<std::size_t>(communicator.rank())] = spent / count;
  communicator.sum(busy);
  return std::max(busy[0], busy[1]);
}

}  // namespace

MeasuredLink measure_link(Communicator& communicator, double large_mb, int repeats, GradientWire wire) {
  if (communicator.size() != 2) {
    throw UsageFailure(fmt::format("a link has two ends: found {} ranks, expected 2", communicator.size()));
  }
  const auto elements = std::max(small_elements, static_cast<std::int64_t>(large_mb * 1e6 / 4));
  const Buffer memory = communicator.allocate(static_cast<std::size_t>(elements) * sizeof(float));
  auto* data = static_cast<float*>(memory.view(Shape{elements}, DType::f32).data);
  const std::vector<double> small = time_sums(communicator, data, small_elements, small_sums);
  const std::vector<double> large = time_sums(communicator, data, elements, repeats);
  // A ring over two ranks has two steps, in each of which a rank sends half of the bytes.
  MeasuredLink measured{.small_ms = insight::quantile(small, 0.5), .large_ms = insight::quantile(large, 0.5)};
  measured.large_mb = static_cast<double>(elements) * 4e-6;
  const double sent_mb = wire == GradientWire::bf16 ? measured.large_mb / 2 : measured.large_mb;
  const auto gbit = [&](double ms) { return sent_mb * 8e-3 / std::max(1e-6, (ms - measured.small_ms) * 1e-3); };
  measured.link.latency_us = measured.small_ms / 2 * 1e3;
  measured.link.gbit_per_s = gbit(measured.large_ms);
  const double spread = gbit(large.front()) - gbit(large.back());
  measured.link.rate_error = std::min(0.99, spread / 2 / measured.link.gbit_per_s);
  measured.link.busy_ms_per_gb =
      busy_ms_beside_computing(communicator, data, elements, measured.large_ms) / (sent_mb * 1e-3);
  return measured;
}

}  // namespace babelring

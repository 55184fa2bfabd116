#include "nmt/lab/record/measure_link.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clock.h"
#include "insight/predict/quantiles.h"

namespace babelring {

namespace {

constexpr int warm_up_sums = 2, small_sums = 50;
constexpr std::int64_t small_elements = 1024;

/// Processor time of this process so far.
double processor_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

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

}  // namespace

MeasuredLink measure_link(Communicator& communicator, double large_mb, int repeats) {
  if (communicator.size() != 2) {
    throw UsageFailure(fmt::format("a link has two ends: found {} ranks, expected 2", communicator.size()));
  }
  const auto elements = std::max(small_elements, static_cast<std::int64_t>(large_mb * 1e6 / 4));
  const Buffer memory = communicator.allocate(static_cast<std::size_t>(elements) * sizeof(float));
  auto* data = static_cast<float*>(memory.view(Shape{elements}, DType::f32).data);
  const std::vector<double> small = time_sums(communicator, data, small_elements, small_sums);
  const double busy_before = processor_ms();
  const std::vector<double> large = time_sums(communicator, data, elements, repeats);
  std::vector<double> busy(2);
  busy[static_cast<std::size_t>(communicator.rank())] = (processor_ms() - busy_before) / (warm_up_sums + repeats);
  communicator.sum(busy);
  // A ring over two ranks has two steps, in each of which a rank sends half of the bytes.
  MeasuredLink measured{.small_ms = insight::quantile(small, 0.5), .large_ms = insight::quantile(large, 0.5)};
  measured.large_mb = static_cast<double>(elements) * 4e-6;
  const auto gbit = [&](double ms) {
    return measured.large_mb * 8e-3 / std::max(1e-6, (ms - measured.small_ms) * 1e-3);
  };
  measured.link.latency_us = measured.small_ms / 2 * 1e3;
  measured.link.gbit_per_s = gbit(measured.large_ms);
  const double spread = gbit(large.front()) - gbit(large.back());
  measured.link.rate_error = std::min(0.99, spread / 2 / measured.link.gbit_per_s);
  measured.link.busy_ms_per_gb = std::max(busy[0], busy[1]) / (measured.large_mb * 1e-3);
  return measured;
}

}  // namespace babelring

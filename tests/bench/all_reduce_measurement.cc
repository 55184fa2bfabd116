#include "tests/bench/all_reduce_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <thread>

#include "base/clock.h"
#include "nmt/ops/elementwise.h"

namespace babelring {

namespace {

/// A rank's value of element i, in [0, 1), with a fraction, so that rounding shows.
float value_of(int rank, std::size_t i) {
  return static_cast<float>((i * 2654435761U + static_cast<std::size_t>(rank) * 40503U) % 10007U) / 10007.0f;
}

double processor_ms() {
  return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC;
}

void compute_for(double ms) {
  if (ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

}  // namespace

std::vector<AllReduceCase> all_reduce_cases(double largest_mb) {
  constexpr std::int64_t mb = 1'000'000;
  std::vector<AllReduceCase> all;
  for (const std::int64_t bytes : {4096L, 65'536L, 1 * mb, 4 * mb, 25 * mb, 100 * mb, 240 * mb}) {
    all.push_back({bytes, bytes});
  }
  all.push_back({100 * mb, 4 * mb});
  for (const std::int64_t bucket : {1 * mb, 4 * mb, 25 * mb}) all.push_back({240 * mb, bucket});
  std::erase_if(all,
                [=](const AllReduceCase& one) { return static_cast<double>(one.payload_bytes) > largest_mb * 1e6; });
  return all;
}

double bus_gb_per_s(const AllReduceCase& one, double ms, int ranks) {
  return static_cast<double>(one.payload_bytes) / ms / 1e6 * 2 * (ranks - 1) / ranks;
}

MeasuredGradient::MeasuredGradient(Backend& backend, Communicator& communicator, std::int64_t max_bytes)
    : backend_(backend),
      communicator_(communicator),
      staged_(!backend.host_memory() && !communicator.device_memory()),
      summed_(communicator.allocate(static_cast<std::size_t>(max_bytes))),
      computed_(staged_ ? backend.allocate(static_cast<std::size_t>(max_bytes)) : Buffer()),
      gradient_(static_cast<float*>(staged_ ? computed_.data() : summed_.data())) {}

/// The largest of all ranks, on all of them.
double MeasuredGradient::largest(double value) {
  for (const std::string& text : communicator_.all_gather(fmt::format("{}", value))) {
    value = std::max(value, std::stod(text));
  }
  return value;
}

void MeasuredGradient::all_reduce(const AllReduceCase& one, double compute_ms) {
  const std::int64_t count = one.payload_bytes / 4, bucket = one.bucket_bytes / 4;
  const Tensor whole(gradient_, {count}, DType::f32);
  auto* summed = static_cast<float*>(summed_.data());
  if (staged_) {
    compute_for(compute_ms);
    backend_.download(whole, summed);
  }
  for (std::int64_t offset = 0; offset < count; offset += bucket) {
    communicator_.all_reduce_start(Tensor(summed + offset, {std::min(bucket, count - offset)}, DType::f32));
  }
  if (!staged_) compute_for(compute_ms);
  communicator_.all_reduce_finish();
  if (staged_) backend_.upload(summed, whole);
  backend_.synchronize();
}

double MeasuredGradient::error_of(const AllReduceCase& one) {
  const auto count = static_cast<std::size_t>(one.payload_bytes / 4);
  const Tensor whole(gradient_, {one.payload_bytes / 4}, DType::f32);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(communicator_.rank(), i);
  backend_.upload(values.data(), whole);
  communicator_.forget_errors();
  all_reduce(one, 0);
  backend_.download(whole, values.data());
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    double expected = 0;
    for (int rank = 0; rank < communicator_.size(); ++rank) expected += static_cast<double>(value_of(rank, i));
    const double error = std::abs(expected - static_cast<double>(values[i]));
    worst = error <= worst ? worst : error;  // NaN stays
  }
  return worst;
}

AllReduceTimes MeasuredGradient::measure(const AllReduceCase& one, int repeats, double compute_ms) {
  AllReduceTimes times{.error = largest(error_of(one))};
  for (int repeat = 0; repeat < repeats; ++repeat) {
    backend_.run(Fill{.y = Tensor(gradient_, {one.payload_bytes / 4}, DType::f32)});
    backend_.synchronize();
    communicator_.barrier();
    const Stopwatch watch;
    const double processor_before = processor_ms();
    all_reduce(one, compute_ms);
    const double elapsed = watch.elapsed_ms(), processor = processor_ms() - processor_before;
    times.ms.push_back(largest(elapsed));
    times.processor_ms.push_back(largest(processor));
  }
  std::sort(times.ms.begin(), times.ms.end());
  std::sort(times.processor_ms.begin(), times.processor_ms.end());
  return times;
}

}  // namespace babelring

// Our all-reduces (shared memory on one host, ring) against MPI_Iallreduce: time, bus bandwidth, processor time and
// error in one row, under mpirun or tests/mpi/two_hosts.sh. A payload is cut into buckets that are all started before
// the first is waited for, as backward does it; --compute-ms sleeps before it waits, as if it computed. Processor time
// is a process's, while it starts and waits: nearly all of it is the communication thread's. Bus bandwidth is payload /
// time * 2 (n-1)/n, the nccl-tests definition: what each rank sends per second, to be held against the link's rate in
// one direction. The last line is JSON.
//   mpirun -np 2 bench_all_reduce [--repeats 10] [--largest-mb 240] [--segment-kb 60] [--in-flight-mb 64]
//     [--compute-ms 0] [--algorithms shared,ring,ring-bf16,mpi]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <ctime>
#include <iostream>
#include <map>
#include <thread>

#include "nmt/base/clock.h"
#include "nmt/base/json.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi_session.h"

namespace babelring {
namespace {

struct Options {
  int repeats = 10;
  double largest_mb = 240;
  std::int64_t segment_kb = 60, in_flight_mb = 64;
  double compute_ms = 0;
  std::vector<std::string> algorithms = {"shared", "ring", "ring-bf16", "mpi"};
};

struct Case {
  std::int64_t payload_bytes, bucket_bytes;
};

/// Milliseconds of the slowest rank, sorted.
struct Timing {
  std::vector<double> ms, processor_ms;
};

double median(const std::vector<double>& sorted) {
  return sorted[(sorted.size() - 1) / 2];
}

double processor_ms() {
  return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC;
}

std::vector<Case> cases(double largest_mb) {
  constexpr std::int64_t mb = 1'000'000;
  std::vector<Case> all;
  for (const std::int64_t bytes : {4096L, 65'536L, 1 * mb, 4 * mb, 25 * mb, 100 * mb, 240 * mb}) {
    all.push_back({bytes, bytes});
  }
  all.push_back({100 * mb, 4 * mb});
  for (const std::int64_t bucket : {1 * mb, 4 * mb, 25 * mb}) all.push_back({240 * mb, bucket});
  std::erase_if(all, [=](const Case& one) { return static_cast<double>(one.payload_bytes) > largest_mb * 1e6; });
  return all;
}

/// A rank's value of element i: small integers and a fraction, so that rounding shows.
float value_of(int rank, std::size_t i) {
  return static_cast<float>((i * 2654435761U + static_cast<std::size_t>(rank) * 40503U) % 10007U) / 10007.0f;
}

void all_reduce(Communicator& communicator, float* gradient, const Case& one, double compute_ms) {
  const std::int64_t count = one.payload_bytes / 4, bucket = one.bucket_bytes / 4;
  for (std::int64_t offset = 0; offset < count; offset += bucket) {
    communicator.all_reduce_start(Tensor(gradient + offset, {std::min(bucket, count - offset)}, DType::f32));
  }
  if (compute_ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(compute_ms));
  communicator.all_reduce_finish();
}

/// Largest difference from the serial sum in double.
double error_of(const float* gradient, std::int64_t bytes, int ranks) {
  double worst = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(bytes / 4); ++i) {
    double expected = 0;
    for (int rank = 0; rank < ranks; ++rank) expected += static_cast<double>(value_of(rank, i));
    worst = std::max(worst, std::abs(expected - static_cast<double>(gradient[i])));
  }
  return worst;
}

/// The slowest rank's value, on all ranks.
double slowest(Communicator& communicator, double value) {
  for (const std::string& text : communicator.all_gather(fmt::format("{}", value))) {
    value = std::max(value, std::stod(text));
  }
  return value;
}

Timing measure(Communicator& communicator, float* gradient, const Case& one, const Options& options) {
  Timing timing;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    std::fill_n(gradient, one.payload_bytes / 4, 0.0f);
    communicator.barrier();
    const Stopwatch watch;
    const double processor_before = processor_ms();
    all_reduce(communicator, gradient, one, options.compute_ms);
    const double elapsed = watch.elapsed_ms(), processor = processor_ms() - processor_before;
    timing.ms.push_back(slowest(communicator, elapsed));
    timing.processor_ms.push_back(slowest(communicator, processor));
  }
  std::sort(timing.ms.begin(), timing.ms.end());
  std::sort(timing.processor_ms.begin(), timing.processor_ms.end());
  return timing;
}

/// The first all-reduce warms up and is checked; the repeats are timed.
json::object run_case(Communicator& communicator, std::string_view algorithm, float* gradient, const Case& one,
                      const Options& options) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(one.payload_bytes / 4); ++i) {
    gradient[i] = value_of(communicator.rank(), i);
  }
  all_reduce(communicator, gradient, one, 0);
  const double error = slowest(communicator, error_of(gradient, one.payload_bytes, communicator.size()));
  // Values lie in [0, 1): magnitudes sum up to the number of ranks at most. See GradientWire.
  const double relative = algorithm == "ring-bf16" ? communicator.size() / 256.0 : 1e-6;
  if (error > relative * communicator.size()) {
    fail("{} all-reduce of {} bytes is off by {} from the serial sum", algorithm, one.payload_bytes, error);
  }
  const Timing timing = measure(communicator, gradient, one, options);
  const int ranks = communicator.size();
  const double typical = median(timing.ms), processor = median(timing.processor_ms);
  const double bus = static_cast<double>(one.payload_bytes) / typical / 1e6 * 2 * (ranks - 1) / ranks;
  if (communicator.rank() == 0) {
    fmt::print("{:<9} {:>12} {:>12} {:>11.3f} {:>11.3f} {:>11.3f} {:>11.3f} {:>9.3f} {:>9.1e}\n", algorithm,
               one.payload_bytes, one.bucket_bytes, typical, timing.ms.front(), timing.ms.back(), processor, bus,
               error);
    std::fflush(stdout);
  }
  return {{"algorithm", algorithm},
          {"payload_bytes", one.payload_bytes},
          {"bucket_bytes", one.bucket_bytes},
          {"repeats", options.repeats},
          {"median_ms", typical},
          {"min_ms", timing.ms.front()},
          {"max_ms", timing.ms.back()},
          {"processor_ms", processor},
          {"bus_gb_per_s", bus},
          {"error", error}};
}

CommOptions settings_of(const std::string& algorithm, const Options& options) {
  static const std::map<std::string, AllReduceAlgorithm> algorithms = {{"shared", AllReduceAlgorithm::automatic},
                                                                       {"ring", AllReduceAlgorithm::ring},
                                                                       {"ring-bf16", AllReduceAlgorithm::ring},
                                                                       {"mpi", AllReduceAlgorithm::mpi}};
  CommOptions settings;
  settings.algorithm = algorithms.at(algorithm);
  if (algorithm == "ring-bf16") settings.wire = GradientWire::bf16;
  settings.segment_bytes = options.segment_kb * 1024;
  settings.in_flight_bytes = options.in_flight_mb << 20;
  return settings;
}

json::array run_algorithm(const std::string& algorithm, const Options& options) {
  const auto communicator = make_mpi_communicator(settings_of(algorithm, options));
  if (algorithm == "shared" && communicator->local_size() < communicator->size()) return {};
  const Buffer memory = communicator->allocate(static_cast<std::size_t>(options.largest_mb * 1e6));
  auto* gradient = static_cast<float*>(memory.data());
  if (communicator->rank() == 0) {
    fmt::print("\n{}\n{:<9} {:>12} {:>12} {:>11} {:>11} {:>11} {:>11} {:>9} {:>9}\n", communicator->description(), "",
               "payload B", "bucket B", "median ms", "min ms", "max ms", "cpu ms", "bus GB/s", "error");
  }
  json::array rows;
  for (const Case& one : cases(options.largest_mb)) {
    rows.push_back(run_case(*communicator, algorithm, gradient, one, options));
  }
  communicator->barrier();
  return communicator->rank() == 0 ? rows : json::array();
}

int run(int argc, char** argv) {
  const MpiSession session(argc, argv);
  Options options;
  CLI::App app("Compares all-reduce algorithms");
  app.add_option("--repeats", options.repeats)->check(CLI::PositiveNumber);
  app.add_option("--largest-mb", options.largest_mb);
  app.add_option("--segment-kb", options.segment_kb);
  app.add_option("--in-flight-mb", options.in_flight_mb);
  app.add_option("--compute-ms", options.compute_ms);
  app.add_option("--algorithms", options.algorithms)
      ->delimiter(',')
      ->check(CLI::IsMember({"shared", "ring", "ring-bf16", "mpi"}));
  CLI11_PARSE(app, argc, argv);
  json::array rows;
  for (const std::string& algorithm : options.algorithms) {
    for (json::value& row : run_algorithm(algorithm, options)) rows.push_back(std::move(row));
  }
  if (!rows.empty()) std::cout << to_text(json::object{{"bench", "all_reduce"}, {"rows", std::move(rows)}}) << "\n";
  return 0;
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  try {
    return babelring::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    babelring::abort_mpi(1);
  }
}

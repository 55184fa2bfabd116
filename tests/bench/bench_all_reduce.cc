// Ways to sum a gradient over ranks: time, bus bandwidth, processor time and error in one row, under mpirun or
// tests/mpi/two_hosts.sh. On processors our all-reduces (shared memory on one host, two levels, ring) against
// MPI_Iallreduce; on GPUs (--device cuda), of which each rank takes one as `worker` does, NCCL against the same by way
// of the host's memory. A payload is cut into buckets that are all started before the first is waited for, as backward
// does it; --compute-ms sleeps before it waits, as if it computed. Processor time is a process's, while it starts and
// waits: nearly all of it is the communication thread's. The last line is JSON.
//   mpirun -np 2 bench_all_reduce [--device cpu|cuda] [--repeats 10] [--largest-mb 240] [--segment-kb 60]
//     [--in-flight-mb 64] [--compute-ms 0] [--algorithms shared,two-level,two-level-bf16,two-level-int8,
//     ring,ring-bf16,ring-int8,mpi,nccl,nccl-bf16]
//   bench_all_reduce --rows 16,128,1200
// --rows measures what a rank computes to agree on the rows of a shared table that any rank uses, beside its messages:
// it stands for the busiest one of N ranks, eight a host, with 50,000 subwords each of a vocabulary of 32,768.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>

#include "base/json.h"
#include "nmt/comm/mpi/session.h"
#include "nmt/comm/schedule/tree.h"
#include "nmt/core/random.h"
#include "nmt/parallel/device.h"
#include "nmt/parallel/gradient_reducer.h"
#include "tests/bench/all_reduce_measurement.h"
#include "tests/nmt/comm/fake_communicator.h"

namespace babelring {
namespace {

/// The configuration that `worker` would get.
const std::map<std::string, CommConfig>& known_algorithms() {
  using enum AllReduceAlgorithm;
  static const std::map<std::string, CommConfig> known = {
      {"shared", {.all_reduce = automatic}},
      {"two-level", {.all_reduce = two_level}},
      {"two-level-bf16", {.all_reduce = two_level, .gradient_wire = GradientWire::bf16}},
      {"two-level-int8", {.all_reduce = two_level, .gradient_wire = GradientWire::int8}},
      {"ring", {.all_reduce = ring}},
      {"ring-bf16", {.all_reduce = ring, .gradient_wire = GradientWire::bf16}},
      {"ring-int8", {.all_reduce = ring, .gradient_wire = GradientWire::int8}},
      {"mpi", {.all_reduce = mpi}},
      {"nccl", {.all_reduce = nccl}},
      {"nccl-bf16", {.all_reduce = nccl, .gradient_wire = GradientWire::bf16}}};
  return known;
}

struct Options {
  std::string device = "cpu";
  int repeats = 10;
  double largest_mb = 240;
  std::int64_t segment_kb = 60, in_flight_mb = 64;
  double compute_ms = 0;
  std::vector<std::string> algorithms;
  std::vector<int> rows;
};

double median(const std::vector<double>& sorted) {
  return sorted[(sorted.size() - 1) / 2];
}

json::object run_case(Communicator& communicator, const std::string& algorithm, MeasuredGradient& gradient,
                      const AllReduceCase& one, const Options& options) {
  const AllReduceTimes times = gradient.measure(one, options.repeats, options.compute_ms);
  const int ranks = communicator.size();
  // Values lie in [0, 1): magnitudes sum up to the number of ranks at most. See GradientWire.
  const double relative = algorithm.ends_with("bf16")   ? ranks / 256.0
                          : algorithm.ends_with("int8") ? (ranks + 1) / 2.0 / 254
                                                        : 1e-6;
  if (!(times.error <= relative * ranks)) {
    fail("{} all-reduce of {} bytes is off by {} from the serial sum", algorithm, one.payload_bytes, times.error);
  }
  const double typical = median(times.ms), processor = median(times.processor_ms);
  const double bus = bus_gb_per_s(one, typical, ranks);
  if (communicator.rank() == 0) {
    fmt::print("{:<9} {:>12} {:>12} {:>11.3f} {:>11.3f} {:>11.3f} {:>11.3f} {:>9.3f} {:>9.1e}\n", algorithm,
               one.payload_bytes, one.bucket_bytes, typical, times.ms.front(), times.ms.back(), processor, bus,
               times.error);
    std::fflush(stdout);
  }
  return {{"algorithm", algorithm},
          {"payload_bytes", one.payload_bytes},
          {"bucket_bytes", one.bucket_bytes},
          {"repeats", options.repeats},
          {"median_ms", typical},
          {"min_ms", times.ms.front()},
          {"max_ms", times.ms.back()},
          {"processor_ms", processor},
          {"bus_gb_per_s", bus},
          {"error", times.error}};
}

std::unique_ptr<Communicator> make_communicator(const CommConfig& config, const Options& options) {
  CommOptions settings = config.options();
  settings.segment_bytes = options.segment_kb * 1024;
  settings.in_flight_bytes = options.in_flight_mb << 20;
  return make_mpi_communicator(settings);
}

json::array run_algorithm(const std::string& algorithm, Backend& backend, Communicator& own, const Options& options) {
  if (algorithm == "shared" && own.local_size() < own.size()) return {};
  const CommConfig& config = known_algorithms().at(algorithm);
  GradientComm gradient_comm;
  const auto bytes = static_cast<std::int64_t>(options.largest_mb * 1e6);
  if (config.all_reduce == AllReduceAlgorithm::nccl) gradient_comm = choose_gradient_comm(config, bytes, backend, own);
  Communicator& communicator = gradient_comm.nccl != nullptr ? *gradient_comm.nccl : own;
  MeasuredGradient gradient(backend, communicator, bytes);
  if (communicator.rank() == 0) {
    fmt::print("\n{}{}\n{:<9} {:>12} {:>12} {:>11} {:>11} {:>11} {:>11} {:>9} {:>9}\n", communicator.description(),
               gradient.staged() ? ", by way of the host's memory" : "", "", "payload B", "bucket B", "median ms",
               "min ms", "max ms", "cpu ms", "bus GB/s", "error");
  }
  json::array rows;
  for (const AllReduceCase& one : all_reduce_cases(options.largest_mb)) {
    rows.push_back(run_case(communicator, algorithm, gradient, one, options));
  }
  communicator.barrier();
  return rows;
}

std::vector<std::string> algorithms_of(const Options& options) {
  if (!options.algorithms.empty()) return options.algorithms;
  if (options.device == "cpu") return {"shared", "ring", "ring-bf16", "mpi"};
  return {"nccl", "nccl-bf16", "shared", "ring", "ring-bf16"};
}

/// The first rank of many: its children in the tree send their bits at once.
class BusiestRank final : public FakeCommunicator {
 public:
  BusiestRank(int ranks, std::size_t words) : FakeCommunicator(nullptr) {
    std::vector<std::string> hosts;
    for (int rank = 0; rank < ranks; ++rank) hosts.push_back(std::to_string(rank / 8));
    const std::size_t children = RankTree::by_host(hosts).children(0).size();
    below_.assign(children, std::string(words * sizeof(std::uint64_t), '\1'));
  }
  void or_bits(std::vector<std::uint64_t>& words) override {
    std::string own(reinterpret_cast<const char*>(words.data()), words.size() * sizeof words[0]);
    for (const std::string& bits : below_) or_bytes(own, bits);
    std::memcpy(words.data(), own.data(), own.size());
  }

 private:
  std::vector<std::string> below_;
};

/// Prints a row for each number of ranks.
void measure_rows(const std::vector<int>& ranks, int repeats) {
  constexpr std::int64_t vocabulary = 32'768, width = 8, tokens = 25'000;
  const auto backend = make_cpu_backend(1);
  const Buffer table = allocate_host(vocabulary * width * sizeof(float));
  Parameter parameter;
  parameter.shape = Shape{vocabulary, width};
  parameter.gradient = table.view(parameter.shape, DType::f32);
  PackedBatch batch;
  Random random(1);
  for (PackedSequences* side : {&batch.source, &batch.target_in}) {
    for (std::int64_t i = 0; i < tokens; ++i) {  // a Zipf-like draw
      side->ids.push_back(static_cast<std::int32_t>(std::pow(vocabulary, random.uniform())) - 1);
    }
  }
  json::array rows;
  for (const int count : ranks) {
    BusiestRank communicator(count, vocabulary / 64);
    EmbeddingRowsReducer reducer(*backend, communicator, parameter);
    std::vector<double> ms;
    for (int i = 0; i < repeats; ++i) {
      const Stopwatch watch;
      reducer.begin(batch);
      ms.push_back(watch.elapsed_ms());
    }
    std::ranges::sort(ms);
    fmt::print("{:>5} ranks: median {:.3f} ms, min {:.3f}, max {:.3f}\n", count, median(ms), ms.front(), ms.back());
    rows.push_back({{"ranks", count}, {"median_ms", median(ms)}, {"min_ms", ms.front()}, {"max_ms", ms.back()}});
  }
  std::cout << to_text(json::object{{"bench", "embedding_rows"}, {"rows", std::move(rows)}}) << "\n";
}

/// The exit code: 0, or 2 on wrong usage, which rank 0 alone reports.
int work(const Options& options) {
  auto communicator = make_communicator({}, options);
  const int rank = communicator->rank(), ranks = communicator->size();
  try {
    const auto backend =
        choose_backend(options.device == "cuda" ? DeviceChoice::cuda : DeviceChoice::cpu, 1, *communicator).backend;
    if (ranks == 1) throw UsageFailure("found 1 rank, expected 2 or more: mpirun -np 2 bench_all_reduce …");
    json::array rows;
    for (const std::string& algorithm : algorithms_of(options)) {
      communicator.reset();
      communicator = make_communicator(known_algorithms().at(algorithm), options);
      for (json::value& row : run_algorithm(algorithm, *backend, *communicator, options)) {
        rows.push_back(std::move(row));
      }
    }
    const json::object result = {
        {"bench", "all_reduce"}, {"backend", backend->description()}, {"ranks", ranks}, {"rows", std::move(rows)}};
    if (rank == 0) std::cout << to_text(result) << "\n";
    return 0;
  } catch (const UsageFailure& failure) {
    if (rank == 0) std::cerr << "error: " << failure.what() << "\n";
    return 2;
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Compares ways to sum a gradient over ranks");
  app.add_option("--device", options.device)->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str();
  app.add_option("--rows", options.rows)->delimiter(',')->check(CLI::Range(2, 100'000));
  app.add_option("--repeats", options.repeats)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--largest-mb", options.largest_mb)->capture_default_str();
  app.add_option("--segment-kb", options.segment_kb)->capture_default_str();
  app.add_option("--in-flight-mb", options.in_flight_mb)->capture_default_str();
  app.add_option("--compute-ms", options.compute_ms)->capture_default_str();
  app.add_option("--algorithms", options.algorithms, "default: those of the device")
      ->delimiter(',')
      ->check(CLI::IsMember(known_algorithms()));
  CLI11_PARSE(app, argc, argv);
  if (!options.rows.empty()) {
    measure_rows(options.rows, options.repeats);
    return 0;
  }
  const MpiSession session(argc, argv);
  return work(options);
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

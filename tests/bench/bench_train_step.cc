// Time of a training update on random tokens, as `worker` runs it: target tokens a second, the split of an update, what
// each op takes against its floor, and the share of the roofline that docs/performance.md derives. The machine's peaks
// are measured before and after the updates of each repeat. The last line is JSON.
//   bench_train_step [--preset base|tiny] [--precision bf16|f32] [--threads 2] [--updates 5] [--repeats 1] …
//   mpirun -np 2 --bind-to none bench_train_step --threads 1 …
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <optional>

#include "nmt/base/clock.h"
#include "nmt/comm/mpi_session.h"
#include "tests/bench/machine_peaks.h"
#include "tests/bench/op_times.h"
#include "tests/bench/training_case.h"

namespace babelring {
namespace {

struct Options {
  TrainingCaseOptions training;
  int updates = 5, warm_up = 2, repeats = 1, observed = 3;
  double peak_seconds = 0.1;
  bool by_size = false;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Largest resident size of this process; reset() forgets what the peaks' arrays took.
class PeakMemory {
 public:
  static void reset() { std::ofstream("/proc/self/clear_refs") << "5"; }
  static std::int64_t bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
    }
    return 0;
  }
};

/// What all ranks together reach when each measures at the same time.
MachinePeaks shared_peaks(Communicator& communicator, int threads, double seconds) {
  communicator.barrier();
  MachinePeaks peaks = measure_machine_peaks(threads, seconds);
  std::vector<double> sums = {peaks.bf16_flops, peaks.f32_flops, peaks.triad_bytes, peaks.read_bytes};
  communicator.sum(sums);
  peaks.threads = threads * communicator.size();
  peaks.bf16_flops = sums[0];
  peaks.f32_flops = sums[1];
  peaks.triad_bytes = sums[2];
  peaks.read_bytes = sums[3];
  return peaks;
}

/// Least time of an update of all ranks: products at the measured rate, then what must move at the measured bandwidth.
double roofline_ms(const MachinePeaks& peaks, DType type, double flops, double bytes) {
  return 1e3 * (flops / (type == DType::bf16 ? peaks.bf16_flops : peaks.f32_flops) + bytes / peaks.triad_bytes);
}

/// The updates of all repeats.
struct Measurement {
  std::vector<StepRecord> updates;
  std::vector<double> roofline_fractions, roofline_ms;  // one a repeat
  MachinePeaks peaks;                                   // the largest of all
  double first_loss = 0, flops = 0, bytes = 0;          // an update's, of all ranks
  std::int64_t memory_bytes = 0;                        // of this rank

  std::vector<double> column(double StepRecord::*member) const {
    std::vector<double> values;
    for (const StepRecord& update : updates) values.push_back(update.*member);
    return values;
  }
};

Measurement measure(TrainingCase& training, Communicator& communicator, const Options& options, int threads) {
  Measurement all;
  all.first_loss = training.update().loss;
  for (int i = 1; i < options.warm_up; ++i) training.update();
  all.peaks = shared_peaks(communicator, threads, options.peak_seconds);
  MachinePeaks before = all.peaks;
  PeakMemory::reset();
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    std::vector<double> step_ms;
    for (int i = 0; i < options.updates; ++i) {
      all.updates.push_back(training.update());
      step_ms.push_back(all.updates.back().step_ms);
    }
    all.memory_bytes = std::max(all.memory_bytes, PeakMemory::bytes());
    std::vector<double> sums = {all.updates.back().flops, training.unavoidable_bytes()};
    communicator.sum(sums);
    all.flops = sums[0];
    all.bytes = sums[1];
    const MachinePeaks after = shared_peaks(communicator, threads, options.peak_seconds);
    PeakMemory::reset();
    all.roofline_ms.push_back(roofline_ms(larger_of(before, after), training.precision(), all.flops, all.bytes));
    all.roofline_fractions.push_back(all.roofline_ms.back() / median(step_ms));
    all.peaks = larger_of(all.peaks, after);
    before = after;
  }
  return all;
}

json::object describe(const Options& options, TrainingCase& training, const Communicator& communicator) {
  const TrainingCaseOptions& what = options.training;
  const ModelConfig& model = training.config().model;
  return {{"bench", "train_step"},
          {"backend", training.backend().description()},
          {"communicator", communicator.description()},
          {"preset", what.preset},
          {"precision", what.precision},
          {"norm", model.norm},
          {"dropout", model.dropout},
          {"attention_dropout", model.attention_dropout},
          {"activation_dropout", model.activation_dropout},
          {"parameters", training.model().parameters().count()},
          {"ranks", communicator.size()},
          {"threads", what.threads},
          {"sentences", what.sentences},
          {"source_length", what.source_length},
          {"target_length", what.target_length},
          {"vocabulary", what.vocabulary},
          {"updates", options.updates},
          {"repeats", options.repeats}};
}

void add_results(json::object& result, const Measurement& all, const TrainingCase& training) {
  const std::vector<double> step_ms = all.column(&StepRecord::step_ms);
  const auto [fastest, slowest] = std::minmax_element(step_ms.begin(), step_ms.end());
  const double tokens = static_cast<double>(training.batches().global_target_tokens);
  result["target_tokens_per_s"] = 1e3 * tokens / median(step_ms);
  result["target_tokens_per_s_min"] = 1e3 * tokens / *slowest;
  result["target_tokens_per_s_max"] = 1e3 * tokens / *fastest;
  result["step_ms"] = median(step_ms);
  result["step_ms_min"] = *fastest;
  result["step_ms_max"] = *slowest;
  result["forward_ms"] = median(all.column(&StepRecord::forward_ms));
  result["backward_ms"] = median(all.column(&StepRecord::backward_ms));
  result["optimizer_ms"] = median(all.column(&StepRecord::optimizer_ms));
  result["exposed_communication_ms"] = median(all.column(&StepRecord::exposed_communication_ms));
  result["matmul_gflop_per_step"] = all.flops / 1e9;
  result["matmul_gflop_per_s"] = all.flops / median(step_ms) / 1e6;
  result["unavoidable_megabytes_per_step"] = all.bytes / 1e6;
  result["roofline_ms"] = median(all.roofline_ms);
  result["roofline_fraction"] = median(all.roofline_fractions);
  result["peak_memory_bytes"] = all.memory_bytes;
  result["first_loss"] = all.first_loss;
  result["last_loss"] = all.updates.back().loss;
  result["peaks"] = to_json(all.peaks);
}

void print_peaks(const MachinePeaks& peaks) {
  fmt::print("peaks of {} threads (one): {} {:.0f} ({:.0f}), {} {:.0f} ({:.0f}) GFLOP/s; ", peaks.threads,
             peaks.bf16_instruction, peaks.bf16_flops / 1e9, peaks.bf16_flops_one_thread / 1e9, peaks.f32_instruction,
             peaks.f32_flops / 1e9, peaks.f32_flops_one_thread / 1e9);
  fmt::print("triad {:.1f} ({:.1f}), read {:.1f} ({:.1f}) GB/s\n", peaks.triad_bytes / 1e9,
             peaks.triad_bytes_one_thread / 1e9, peaks.read_bytes / 1e9, peaks.read_bytes_one_thread / 1e9);
}

void print_summary(const json::object& result) {
  const auto number = [&](std::string_view key) { return result.at(key).to_number<double>(); };
  fmt::print("update {:.1f} ms ({:.1f} to {:.1f}) = forward {:.1f}, backward {:.1f}, waiting for ranks {:.1f}, ",
             number("step_ms"), number("step_ms_min"), number("step_ms_max"), number("forward_ms"),
             number("backward_ms"), number("exposed_communication_ms"));
  fmt::print("optimizer {:.1f}\n", number("optimizer_ms"));
  fmt::print("{:.0f} target tokens/s ({:.0f} to {:.0f}); {:.1f} GFLOP an update, {:.0f} GFLOP/s; ",
             number("target_tokens_per_s"), number("target_tokens_per_s_min"), number("target_tokens_per_s_max"),
             number("matmul_gflop_per_step"), number("matmul_gflop_per_s"));
  fmt::print("roofline {:.1f} ms = {:.1f} %; peak memory {:.0f} MB; loss {:.4f} to {:.4f}\n", number("roofline_ms"),
             100 * number("roofline_fraction"), number("peak_memory_bytes") / 1e6, number("first_loss"),
             number("last_loss"));
}

/// Observed updates, for the table only: rank 0's ops, each in its shortest of several updates.
OpTimes observe(TrainingCase& training, const Options& options) {
  OpTimes shortest(options.by_size);
  for (int i = 0; i < options.observed; ++i) {
    OpTimes times(options.by_size);
    training.backend().observe(&times);
    training.update();
    shortest.keep_shorter(times);
  }
  training.backend().observe(nullptr);
  return shortest;
}

int work(const Options& options, Communicator& communicator) {
  TrainingCase training(options.training, communicator);
  const int threads = options.training.threads;
  const Measurement all = measure(training, communicator, options, threads);
  const OpTimes times = observe(training, options);
  if (communicator.rank() != 0) return 0;
  json::object result = describe(options, training, communicator);
  add_results(result, all, training);
  MachinePeaks share = all.peaks;
  const double ranks = communicator.size();
  for (const auto figure : {&MachinePeaks::bf16_flops, &MachinePeaks::f32_flops, &MachinePeaks::triad_bytes}) {
    share.*figure /= ranks;
  }
  fmt::print("{}; {}\n", training.backend().description(), communicator.description());
  print_peaks(all.peaks);
  print_table(times, share, training.precision());
  print_summary(result);
  result["ops"] = to_json(times, share, training.precision());
  std::cout << std::flush << to_text(result) << std::endl;
  return 0;
}

void declare(CLI::App& app, Options& options) {
  TrainingCaseOptions& training = options.training;
  training.threads = 2;
  app.add_option("--preset", training.preset)->check(CLI::IsMember({"tiny", "base", "big"}))->capture_default_str();
  app.add_option("--precision", training.precision)->check(CLI::IsMember({"bf16", "f32"}))->capture_default_str();
  app.add_option("--norm", training.norm)->check(CLI::IsMember({"post", "pre"}))->capture_default_str();
  app.add_option("--threads", training.threads, "of each rank")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--sentences", training.sentences, "pairs of an update, over all ranks")->check(CLI::PositiveNumber);
  app.add_option("--source-length", training.source_length, "tokens of a sentence")->check(CLI::PositiveNumber);
  app.add_option("--target-length", training.target_length)->check(CLI::PositiveNumber);
  app.add_option("--vocabulary", training.vocabulary)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--dropout", training.dropout, "on embeddings and sub-layer outputs; default: the preset's");
  app.add_option("--attention-dropout", training.attention_dropout, "on attention weights; default 0");
  app.add_option("--activation-dropout", training.activation_dropout, "after the ReLU; default 0");
  app.add_option("--tied-embeddings", training.tied_embeddings)->check(CLI::IsMember({"all", "decoder", "none"}));
  app.add_option("--updates", options.updates, "timed, in each repeat")->check(CLI::Range(1, 100000));
  app.add_option("--warmup", options.warm_up, "updates before them, not timed")->check(CLI::Range(1, 100000));
  app.add_option("--repeats", options.repeats, "series, each with the machine's peaks")->check(CLI::Range(1, 1000));
  app.add_option("--observed", options.observed, "updates of which the table shows each op's shortest")
      ->check(CLI::Range(1, 1000));
  app.add_option("--peak-seconds", options.peak_seconds, "for each of the machine's peaks")
      ->check(CLI::Range(0.0, 10.0));
  app.add_flag("--by-size", options.by_size, "a line for each size of an op");
}

int run(const Options& options, int& argc, char**& argv) {
  if (!MpiSession::under_mpirun()) return work(options, *make_single_communicator());
  const MpiSession session(argc, argv);
  return work(options, *make_mpi_communicator({}));
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  CLI::App app("Time of a training update against the machine's roofline");
  babelring::Options options;
  babelring::declare(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    return babelring::run(options, argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    if (babelring::MpiSession::under_mpirun()) babelring::abort_mpi(1);
    return 1;
  }
}

// Time of a training update as `worker` runs it, on random tokens or prepared text: target tokens a second, the split
// of an update, what each op takes against its floor, and the share of the roofline that docs/performance.md derives.
// The machine's peaks are measured before and after the updates of each repeat. The last line is JSON.
//   bench_train_step [--device cpu|cuda] [--preset base|tiny|big] [--precision bf16|f32] [--threads 2] [--updates 5] …
//   mpirun -np 2 --bind-to none bench_train_step --threads 1 …
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>

#include "base/log.h"
#include "base/version.h"
#include "nmt/comm/mpi/session.h"
#include "tests/bench/op_times.h"
#include "tests/bench/train_measurement.h"
#include "worker/reporter.h"
#include "worker/run_folder.h"

namespace babelring {
namespace {

struct Options {
  TrainingCaseOptions training;
  MeasurementOptions measurement;
  int observed = 3;
  bool by_size = false;
  std::string spool, server = "none", batches_file;
};

json::object describe(const Options& options, TrainingCase& training, const Communicator& communicator) {
  const TrainingCaseOptions& what = options.training;
  const ModelConfig& model = training.config().model;
  json::object result = {{"bench", "train_step"},
                         {"backend", training.backend().description()},
                         {"communicator", communicator.description()},
                         {"preset", what.preset},
                         {"precision", what.precision},
                         {"norm", what.norm},
                         {"activation", what.activation},
                         {"dropout", model.dropout},
                         {"attention_dropout", model.attention_dropout},
                         {"activation_dropout", model.activation_dropout},
                         {"parameters", training.model().parameters().count()},
                         {"vocabulary", training.model().vocabulary()},
                         {"ranks", communicator.size()},
                         {"threads", what.threads},
                         {"updates", options.measurement.updates},
                         {"repeats", options.measurement.repeats},
                         {"lab", what.lab}};
  if (what.data_folder.empty()) {
    result["sentences"] = what.random.sentences;
    result["source_length"] = what.random.source_length;
    result["target_length"] = what.random.target_length;
  } else {
    result["data"] = what.data_folder;
    result["tokens_per_update"] = what.tokens_per_update;
  }
  return result;
}

void print_summary(const json::object& result) {
  const auto number = [&](std::string_view key) { return result.at(key).to_number<double>(); };
  fmt::print("update {:.1f} ms ({:.1f} to {:.1f}) = data {:.1f}, forward {:.1f}, backward {:.1f}, ", number("step_ms"),
             number("step_ms_min"), number("step_ms_max"), number("data_ms"), number("forward_ms"),
             number("backward_ms"));
  fmt::print("waiting for ranks {:.1f}, optimizer {:.1f}, report {:.2f}\n", number("exposed_communication_ms"),
             number("optimizer_ms"), number("report_ms"));
  fmt::print("{:.0f} target tokens/s ({:.0f} to {:.0f}); {:.1f} GFLOP an update, {:.0f} GFLOP/s = {:.1f} %; ",
             number("target_tokens_per_s"), number("target_tokens_per_s_min"), number("target_tokens_per_s_max"),
             number("matmul_gflop_per_step"), number("matmul_gflop_per_s"), 100 * number("flop_utilisation"));
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

/// Rank 0's share of the machine.
MachinePeaks share_of(MachinePeaks peaks, int ranks) {
  for (const auto figure : {&MachinePeaks::bf16_flops, &MachinePeaks::f32_flops, &MachinePeaks::triad_bytes}) {
    peaks.*figure /= ranks;
  }
  return peaks;
}

/// Where records of updates go; null unless --spool is given.
std::unique_ptr<Reporter> make_reporter(const Options& options, const TrainConfig& config,
                                        const Communicator& communicator) {
  if (options.spool.empty()) return nullptr;
  if (communicator.size() > 1) throw UsageFailure("--spool: is for one rank");
  RunFolder folder(options.spool, {});
  folder.open(0, communicator.hosts()[0]);
  auto reporter =
      std::make_unique<Reporter>(ReporterOptions{.server = {options.server == "none" ? "" : options.server},
                                                 .identity = {.run = folder.run(), .host = communicator.hosts()[0]},
                                                 .spool_folder = options.spool});
  reporter->write(LifecycleRecord{
      .event = "started", .name = config.name, .config = config_yaml(config), .version = version, .world_size = 1});
  return reporter;
}

/// Processor time so far of each thread of this process, in seconds.
std::map<std::string, double> thread_times() {
  std::map<std::string, double> times;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    double nanoseconds = 0;
    std::ifstream(thread.path() / "schedstat") >> nanoseconds;
    times[thread.path().filename().string()] = nanoseconds / 1e9;
  }
  return times;
}

int work(Options& options, Communicator& communicator) {
  TrainingCase training(options.training, communicator);
  const std::map<std::string, double> before_reporter = thread_times();
  const auto reporter = make_reporter(options, training.config(), communicator);
  const std::map<std::string, double> with_reporter = thread_times();
  options.measurement.threads = options.training.threads;
  options.measurement.records = reporter.get();
  const TrainMeasurement measured = measure_training(training, communicator, options.measurement);
  const OpTimes times = observe(training, options);
  double reporter_seconds = 0;
  for (const auto& [thread, seconds] : thread_times()) {
    if (with_reporter.contains(thread) && !before_reporter.contains(thread)) reporter_seconds += seconds;
  }
  const std::int64_t unsent = reporter == nullptr ? 0 : reporter->close(std::chrono::seconds(10));
  if (communicator.rank() != 0) return 0;
  json::object result = describe(options, training, communicator);
  for (auto& [key, value] : summarize(measured)) result[key] = value;
  if (reporter != nullptr) {
    result["records_not_confirmed"] = unsent;
    result["reporter_processor_s"] = reporter_seconds;
  }
  fmt::print("{}; {}\n", training.backend().description(), communicator.description());
  print_peaks(measured.peaks);
  const MachinePeaks share = share_of(measured.peaks, communicator.size());
  if (options.observed > 0) print_table(times, share, training.precision());
  print_summary(result);
  result["ops"] = to_json(times, share, training.precision());
  fmt::print("{}\n", to_text(result));
  return 0;
}

void declare_training(CLI::App& app, TrainingCaseOptions& training) {
  app.add_option("--preset", training.preset)
      ->check(CLI::IsMember({"tiny", "base", "big", "modern-tiny", "modern-base", "modern-big"}))
      ->capture_default_str();
  app.add_option("--precision", training.precision)->check(CLI::IsMember({"bf16", "f32"}))->capture_default_str();
  app.add_option("--norm", training.norm)->check(CLI::IsMember({"post", "pre"}))->capture_default_str();
  app.add_option("--activation", training.activation)
      ->check(CLI::IsMember({"relu", "swish", "gelu"}))
      ->capture_default_str();
  app.add_option("--device", training.device)->check(CLI::IsMember({"cpu", "cuda", "auto"}))->capture_default_str();
  app.add_flag("--cuda-graphs", training.cuda_graphs, "as training.cuda_graphs");
  app.add_flag("--gpu-meter", training.gpu_meter, "read the GPU's figures five times a second, as training does");
  app.add_option("--products", training.matmuls_file,
                 "file of the GPU's algorithms for products (rank 0's), of an earlier call or to be made");
  app.add_option("--threads", training.threads, "of each rank")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--dropout", training.dropout, "on embeddings and sub-layer outputs; default: the preset's");
  app.add_option("--attention-dropout", training.attention_dropout, "on attention weights")->capture_default_str();
  app.add_option("--activation-dropout", training.activation_dropout, "after the activation")->capture_default_str();
  app.add_option("--attention-bias", training.attention_bias, "biases in attention's projections")
      ->capture_default_str();
  app.add_option("--tied-embeddings", training.tied_embeddings)->check(CLI::IsMember({"all", "decoder", "none"}));
  app.add_option("--all-reduce", training.all_reduce)
      ->check(CLI::IsMember({"auto", "shared_memory", "two_level", "ring", "mpi"}))
      ->capture_default_str();
  app.add_option("--gradient-wire", training.gradient_wire)
      ->check(CLI::IsMember({"f32", "bf16", "int8"}))
      ->capture_default_str();
  app.add_option("--optimizer", training.optimizer, "as communication.optimizer")
      ->check(CLI::IsMember({"auto", "replicated", "sharded"}))
      ->capture_default_str();
  app.add_option("--bucket-mb", training.bucket_mb)->check(CLI::PositiveNumber)->capture_default_str();
  RandomUpdateOptions& random = training.random;
  app.add_option("--sentences", random.sentences, "pairs of an update, over all ranks")->check(CLI::PositiveNumber);
  app.add_option("--source-length", random.source_length, "tokens of a sentence")->check(CLI::PositiveNumber);
  app.add_option("--target-length", random.target_length)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--vocabulary", random.vocabulary, "pieces; default: 10000 for tiny, else 32000");
  app.add_option("--data", training.data_folder, "a folder of `nmt prepare` instead of random tokens");
  app.add_option("--set", training.data_set, "of that folder")->capture_default_str();
  app.add_option("--tokens", training.tokens_per_update, "target tokens of an update of prepared text");
  app.add_option("--lab", training.lab, "a tool of the lab that looks inside of each update")
      ->check(CLI::IsMember({"parameters", "timeline", "ledger"}));
  app.add_option("--micro-batch-tokens", training.micro_batch_tokens, "of prepared text; 0: one micro-batch");
}

void declare_measurement(CLI::App& app, Options& options) {
  MeasurementOptions& measurement = options.measurement;
  app.add_option("--updates", measurement.updates, "timed, in each repeat")->check(CLI::Range(1, 100000));
  app.add_option("--warmup", measurement.warm_up, "updates before them, not timed")->check(CLI::Range(1, 100000));
  app.add_option("--repeats", measurement.repeats, "series, each with the machine's peaks")->check(CLI::Range(1, 1000));
  app.add_option("--peak-seconds", measurement.peak_seconds, "for each of the peaks")->check(CLI::Range(0.0, 10.0));
  app.add_option("--observed", options.observed, "updates of which the table shows each op's shortest; 0: no table")
      ->check(CLI::Range(0, 1000));
  app.add_flag("--by-size", options.by_size, "a line for each size of an op");
  app.add_option("--write-batches", options.batches_file,
                 "do not train: write what --warmup and --updates would be trained on, a line of JSON an update");
  app.add_option("--spool", options.spool, "report every update, as `worker` does, by way of this folder");
  app.add_option("--server", options.server, "and send it to this address")->needs("--spool");
}

int run(Options& options, int& argc, char**& argv) {
  if (!options.batches_file.empty()) {
    write_batches(options.training, options.measurement.warm_up + options.measurement.updates, options.batches_file);
    return 0;
  }
  if (!MpiSession::under_mpirun()) return work(options, *make_single_communicator());
  const MpiSession session(argc, argv);
  return work(options, *make_mpi_communicator(train_config(options.training).communication.options()));
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  CLI::App app("Time of a training update against the machine's roofline");
  babelring::Options options;
  babelring::declare_training(app, options.training);
  babelring::declare_measurement(app, options);
  CLI11_PARSE(app, argc, argv);
  if (app.count("--vocabulary") == 0 && options.training.preset.ends_with("tiny"))
    options.training.random.vocabulary = 10000;
  babelring::init_log("", "error");  // the output ends with a line of JSON
  try {
    return babelring::run(options, argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    if (babelring::MpiSession::under_mpirun()) babelring::abort_mpi(1);
    return 1;
  }
}

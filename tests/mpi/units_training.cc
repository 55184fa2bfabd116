#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/digest.h"
#include "nmt/comm/mpi/session.h"
#include "tests/mpi/train_small.h"
#include "tests/nmt/train/brake.h"

/// Trains a tiny model with training.reproducible ranks, once for each precision, path of the gradients and number of
/// threads, and prints a line for each with digests. Run with any number of ranks on any hosts: the digests of a
/// precision must be equal.
///
///   mpirun -np N units_training UPDATES ALL_REDUCE,… [KEY=VALUE …]
///
///   folder=F      keeps checkpoints, from which another call goes on; for one path, with one thread
///   every=N       a checkpoint every N updates, else only the last
///   state=sharded hosts divide the optimizer's state, and write a checkpoint together
///   state=shared  hosts divide the optimizer's state, and rank 0 writes it
///   balance=US    data.balance is measured and an op takes US microseconds longer on slow ranks; one thread
///   slow=A,B,…    the slow ranks, else 1
///   precision=P   only f32 or bf16
///
/// A line also has the part of the last update that rank 0 computed.
namespace babelring {
namespace {

using Options = std::map<std::string, std::string>;

struct Setting {
  DType precision;
  std::string all_reduce;
  int threads;
};

TrainConfig config_of(const Setting& setting, const std::string& updates, const Options& options) {
  TrainConfig config = small_config();
  config.model.inner = 1100;  // a matmul of several pieces
  config.model.attention_dropout = config.model.activation_dropout = 0.1;
  config.data.micro_batch_tokens = 16;  // several in a unit
  config.data.valid_set.clear();
  config.training.precision = setting.precision;
  config.training.reproducible = Reproducible::ranks;
  config.training.stop_after = Interval((updates + "u").c_str());
  config.communication.all_reduce = setting.all_reduce == "ring"            ? AllReduceAlgorithm::ring
                                    : setting.all_reduce == "two_level"     ? AllReduceAlgorithm::two_level
                                    : setting.all_reduce == "shared_memory" ? AllReduceAlgorithm::shared_memory
                                                                            : AllReduceAlgorithm::automatic;
  if (options.contains("every")) config.checkpoint.every = (options.at("every") + "u").c_str();
  config.checkpoint.keep_last = 100;
  if (options.contains("state")) {
    config.communication.optimizer = OptimizerPlacement::sharded;
    config.checkpoint.sharded = options.at("state") == "sharded";
  }
  if (options.contains("balance")) config.data.balance = Balance::measured;
  config.data.prefetch = 2;
  return config;
}

double computed_part(const StepRecord& step) {
  return static_cast<double>(step.target_tokens) / static_cast<double>(step.update_target_tokens);
}

void print_digests(const Setting& setting, const std::vector<StepRecord>& steps) {
  Sha256 all;
  for (const StepRecord& step : steps) {
    for (const double number : {step.loss, step.nll, step.gradient_norm}) all.add(&number, sizeof number);
    all.add(step.weights_digest.data(), step.weights_digest.size());
  }
  fmt::print("{} {} threads={} updates={} part={:.3f} last={:.16} all={:.16}\n", name_of(setting.precision),
             setting.all_reduce, setting.threads, steps.size(), computed_part(steps.back()),
             steps.back().weights_digest, all.hex());
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

Options options_of(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::size_t sign = arguments[i].find('=');
    options[arguments[i].substr(0, sign)] = arguments[i].substr(sign + 1);
  }
  return options;
}

bool is_slow(const Options& options, int rank) {
  if (!options.contains("balance")) return false;
  const auto slow = split(options.contains("slow") ? options.at("slow") : "1");
  return std::ranges::find(slow, std::to_string(rank)) != slow.end();
}

void run(const std::vector<std::string>& arguments) {
  const Options options = options_of(arguments);
  const std::filesystem::path folder = options.contains("folder") ? options.at("folder") : "";
  for (const DType precision : {DType::f32, DType::bf16}) {
    if (options.contains("precision") && options.at("precision") != name_of(precision)) continue;
    for (const std::string& all_reduce : split(arguments.at(1))) {
      for (const int threads : folder.empty() && !options.contains("balance") ? std::vector{1, 2} : std::vector{1}) {
        const Setting setting{precision, all_reduce, threads};
        const TrainConfig config = config_of(setting, arguments.at(0), options);
        const auto communicator = make_mpi_communicator(config.comm_options());
        Brake brake(std::chrono::microseconds(options.contains("balance") ? std::stoi(options.at("balance")) : 0));
        const auto steps =
            train_small(config, *communicator, folder.empty() ? folder : folder / std::string(name_of(precision)),
                        threads, 500, is_slow(options, communicator->rank()) ? &brake : nullptr);
        if (communicator->rank() == 0) print_digests(setting, steps);
      }
    }
  }
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  try {
    babelring::MpiSession mpi(argc, argv, std::chrono::seconds(120));
    babelring::run({argv + 1, argv + argc});
    mpi.finalize(std::chrono::seconds(120), 0);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "units_training: {}\n", failure.what());
    babelring::abort_mpi(1);
  }
}

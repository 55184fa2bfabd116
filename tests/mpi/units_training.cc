#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/digest.h"
#include "nmt/comm/mpi_session.h"
#include "tests/mpi/train_small.h"
#include "tests/nmt/train/brake.h"

/// Trains a tiny model with training.reproducible ranks, once for each precision, path of the gradients and number of
/// threads, and prints a line for each with digests. Run with any number of ranks on any hosts: the digests of a
/// precision must be equal.
///
///   mpirun -np N units_training UPDATES ALL_REDUCE,… [FOLDER | balance=DELAY]
///
/// FOLDER keeps checkpoints, from which another call goes on; it is for one path and one thread. balance: an op of rank
/// 1 takes DELAY microseconds longer and data.balance is measured, with one thread. A line also has the part of the
/// last update that rank 0 computed.
namespace babelring {
namespace {

struct Setting {
  DType precision;
  std::string all_reduce;
  int threads;
};

TrainConfig config_of(const Setting& setting, const std::string& updates) {
  TrainConfig config = small_config();
  config.model.inner = 1100;  // a matmul of several pieces
  config.model.attention_dropout = config.model.activation_dropout = 0.1;
  config.data.micro_batch_tokens = 16;  // several in a unit
  config.data.valid_set.clear();
  config.training.precision = setting.precision;
  config.training.reproducible = Reproducible::ranks;
  config.training.stop_after = Interval((updates + "u").c_str());
  config.communication.all_reduce = setting.all_reduce == "ring"            ? GradientPath::ring
                                    : setting.all_reduce == "two_level"     ? GradientPath::two_level
                                    : setting.all_reduce == "shared_memory" ? GradientPath::shared_memory
                                                                            : GradientPath::automatic;
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

void run(const std::vector<std::string>& arguments) {
  const std::string third = arguments.size() > 2 ? arguments[2] : "";
  const std::string key = "balance=";
  const bool balance = third.starts_with(key);
  const std::filesystem::path folder = balance ? "" : third;
  for (const DType precision : {DType::f32, DType::bf16}) {
    for (const std::string& all_reduce : split(arguments.at(1))) {
      for (const int threads : folder.empty() && !balance ? std::vector{1, 2} : std::vector{1}) {
        const Setting setting{precision, all_reduce, threads};
        TrainConfig config = config_of(setting, arguments.at(0));
        if (balance) config.data.balance = Balance::measured;
        config.data.prefetch = 2;
        const auto communicator = make_mpi_communicator(config.comm_options());
        Brake brake(std::chrono::microseconds(balance ? std::stoi(third.substr(key.size())) : 0));
        const bool slow = balance && communicator->rank() == 1;
        const auto steps =
            train_small(config, *communicator, folder.empty() ? folder : folder / std::string(name_of(precision)),
                        threads, 500, slow ? &brake : nullptr);
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

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "nmt/comm/mpi_session.h"
#include "tests/mpi/train_small.h"

/// Trains a tiny model with communication.gradient_wire int8 and f32. Fails unless all ranks end with the same weights,
/// int8 learns as f32 does, rounding errors are kept between checkpoints, and a run that goes on from its checkpoint is
/// bit-equal to one without a stop. Each rank prints a line.
///
///   mpirun -np N int8_training ALL_REDUCE FOLDER      (replaces FOLDER)
namespace babelring {
namespace {

constexpr int updates = 60;

TrainConfig config_of(GradientWire wire, const std::string& all_reduce) {
  TrainConfig config = small_config();
  config.data.tokens_per_update = 1000;
  config.data.valid_set.clear();
  config.checkpoint.every = "20u";
  config.communication.gradient_wire = wire;
  config.communication.all_reduce = all_reduce == "ring" ? GradientPath::ring : GradientPath::two_level;
  config.training.stop_after = Interval(fmt::format("{}u", updates).c_str());
  return config;
}

/// The records of all updates. All ranks must have the same weights after each.
std::vector<StepRecord> train(const TrainConfig& config, const std::filesystem::path& folder) {
  const auto communicator = make_mpi_communicator(config.comm_options());
  if (communicator->size() > 1 && (communicator->description().find("int8 on the wire") != std::string::npos) !=
                                      (config.communication.gradient_wire == GradientWire::int8)) {
    fail("the gradients travel as: {}", communicator->description());
  }
  std::vector<StepRecord> steps = train_small(config, *communicator, folder);
  std::string digests;
  for (const StepRecord& step : steps) digests += step.weights_digest;
  for (const std::string& other : communicator->all_gather(digests)) {
    if (other != digests) fail("the weights of two ranks differ");
  }
  return steps;
}

double mean_loss_at_end(const std::vector<StepRecord>& steps) {
  double sum = 0;
  for (std::size_t i = steps.size() - 10; i < steps.size(); ++i) sum += steps[i].loss;
  return sum / 10;
}

void run(const std::string& all_reduce, const std::filesystem::path& folder) {
  {
    const auto communicator = make_mpi_communicator({});
    if (communicator->rank() == 0) std::filesystem::remove_all(folder);
    communicator->barrier();
  }
  const double f32 = mean_loss_at_end(train(config_of(GradientWire::f32, all_reduce), folder / "f32"));
  const TrainConfig config = config_of(GradientWire::int8, all_reduce);
  const std::vector<StepRecord> whole = train(config, folder / "whole");
  const double int8 = mean_loss_at_end(whole);
  if (std::abs(int8 - f32) > 0.01 * f32) fail("the loss at the end is {}, with f32 {}", int8, f32);

  TrainConfig first_part = config;
  first_part.training.stop_after = "40u";
  train(first_part, folder / "resumed");
  const std::vector<StepRecord> rest = train(config, folder / "resumed");
  if (rest.size() != updates - 40) fail("trained {} updates after the checkpoint", rest.size());
  if (rest.back().weights_digest != whole.back().weights_digest) fail("a resumed run has other weights");

  TrainConfig without = config;
  without.checkpoint.every = "0u";
  if (train(without, folder / "without").back().weights_digest == whole.back().weights_digest) {
    fail("rounding errors were not kept from update to update");
  }
  fmt::print("int8_training: {} loss {:.4f}, f32 {:.4f}\n", all_reduce, int8, f32);
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  try {
    babelring::MpiSession mpi(argc, argv, std::chrono::seconds(120));
    if (argc != 3) babelring::fail("expected ALL_REDUCE and FOLDER");
    babelring::run(argv[1], argv[2]);
    mpi.finalize(std::chrono::seconds(120), 0);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "int8_training: {}\n", failure.what());
    babelring::abort_mpi(1);
  }
}

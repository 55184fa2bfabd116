#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "nmt/comm/mpi/session.h"
#include "tests/mpi/train_small.h"

/// Trains a tiny model with communication.gradient_wire int8 and f32. Fails unless all ranks end with the same weights,
/// int8 learns as f32 does, also after a gradient that is not finite, rounding errors are kept between checkpoints, and
/// a run that goes on from its checkpoint is bit-equal to one without a stop. Each rank prints a line.
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
  config.communication.all_reduce = all_reduce == "ring" ? AllReduceAlgorithm::ring : AllReduceAlgorithm::two_level;
  config.training.stop_after = Interval(fmt::format("{}u", updates).c_str());
  return config;
}

/// Makes one element of this rank's gradient NaN in one update.
class NanGradient : public UpdateObserver, private OpObserver {
 public:
  explicit NanGradient(std::int64_t update) : update_(update) {}
  OpObserver* begin(const UpdateStart& start) override { return start.update == update_ ? this : nullptr; }
  void end(const StepRecord&) override {}

 private:
  Watch watch() const override { return Watch::order; }
  void ran(const OpRun& run) override {
    for (const OpField& field : run.fields) {
      if (done_ || field.name != "dweight") continue;
      const_cast<float*>(field.tensor.as<float>())[0] = std::numeric_limits<float>::quiet_NaN();
      done_ = true;
    }
  }

  std::int64_t update_;
  bool done_ = false;
};

/// The records of all updates. All ranks must have the same weights after each. `lab` observes the last rank.
std::vector<StepRecord> train(const TrainConfig& config, const std::filesystem::path& folder,
                              UpdateObserver* lab = nullptr) {
  const auto communicator = make_mpi_communicator(config.comm_options());
  if (communicator->size() > 1 && (communicator->description().find("int8 on the wire") != std::string::npos) !=
                                      (config.communication.gradient_wire == GradientWire::int8)) {
    fail("the gradients travel as: {}", communicator->description());
  }
  const bool last = communicator->rank() == communicator->size() - 1;
  std::vector<StepRecord> steps = train_small(config, *communicator, folder, 1, 500, last ? lab : nullptr);
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

  constexpr std::int64_t bad_update = 30;
  NanGradient bad(bad_update);
  const std::vector<StepRecord> skipping = train(config, folder / "skipping", &bad);
  for (const StepRecord& step : skipping) {
    if (step.skipped != (step.update == bad_update)) fail("update {}: skipped: {}", step.update, step.skipped);
  }
  const double skipped = mean_loss_at_end(skipping);
  if (!(std::abs(skipped - f32) < 0.02 * f32)) fail("the loss ends at {} after a skipped update", skipped);

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

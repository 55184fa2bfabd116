#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "nmt/comm/mpi/session.h"
#include "nmt/train/update/model_replica.h"
#include "tests/mpi/train_small.h"

/// Trains a tiny model on several hosts with communication.optimizer sharded and replicated. Fails unless all ranks end
/// with the same weights after each update, both have the same bits where the order of sums allows it, sharded goes on
/// from a checkpoint in either form, sends 3/4 of the bytes with bf16 weights, and learns as well with every wire type,
/// and auto chooses sharded where it sends less and changes no bit.
/// Each rank prints a line.
///
///   mpirun -np N shares_training FOLDER      (replaces FOLDER)
namespace babelring {
namespace {

TrainConfig config_of(OptimizerPlacement optimizer, DType precision, const char* stop_after) {
  TrainConfig config = small_config();
  config.model.width = 96;
  config.model.inner = 384;
  config.optimizer.adam.clip_norm = 0.5;
  config.data.tokens_per_update = 1000;
  config.data.valid_set.clear();
  config.communication.optimizer = optimizer;
  config.training.precision = precision;
  config.training.digest_every = "3u";  // a digest waits for all weights; other updates begin without
  config.training.stop_after = stop_after;
  return config;
}

/// The records of all updates, with the bytes that all ranks send. All ranks must have the same weights after each.
std::vector<StepRecord> train(const TrainConfig& config, const std::filesystem::path& folder = {}) {
  const auto communicator = make_mpi_communicator(config.comm_options());
  if (communicator->host_exchange() == nullptr) fail("there are no hosts to exchange: {}", communicator->description());
  std::vector<StepRecord> steps = train_small(config, *communicator, folder);
  std::string digests;
  for (StepRecord& step : steps) {
    digests += step.weights_digest;
    std::vector<double> bytes{static_cast<double>(step.communication_bytes)};
    communicator->sum(bytes);
    step.communication_bytes = static_cast<std::int64_t>(bytes[0]);
  }
  for (const std::string& other : communicator->all_gather(digests)) {
    if (other != digests) fail("the weights of two ranks differ");
  }
  return steps;
}

void expect_same(const std::vector<StepRecord>& found, const std::vector<StepRecord>& expected) {
  if (found.size() != expected.size()) fail("{} updates, expected {}", found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].weights_digest != expected[i].weights_digest) fail("update {} has other weights", i + 1);
    if (found[i].loss != expected[i].loss) fail("update {} has another loss", i + 1);
  }
}

double mean_loss(const std::vector<StepRecord>& steps) {
  const auto add = [](double sum, const StepRecord& step) { return sum + step.loss; };
  return std::accumulate(steps.end() - 5, steps.end(), 0.0, add) / 5;
}

bool has_same_bits() {
  return make_mpi_communicator({})->same_bits_in_any_bucket();
}

void run_bits(const std::filesystem::path& folder) {
  using enum OptimizerPlacement;
  for (const DType precision : {DType::f32, DType::bf16}) {
    for (const int micro_batch_tokens : {0, 60}) {
      TrainConfig config = config_of(replicated, precision, "6u");
      config.data.micro_batch_tokens = micro_batch_tokens;
      const std::vector<StepRecord> whole = train(config);
      const std::filesystem::path own = folder / fmt::format("{}-{}", name_of(precision), micro_batch_tokens);
      config.communication.optimizer = sharded;
      config.training.stop_after = "3u";
      std::vector<StepRecord> shares = train(config, own);
      config.training.stop_after = "6u";
      config.checkpoint.sharded = true;
      for (StepRecord& step : train(config, own)) shares.push_back(std::move(step));
      if (has_same_bits()) expect_same(shares, whole);
      const double bytes = static_cast<double>(shares[1].communication_bytes);
      const double fraction = bytes / static_cast<double>(whole[1].communication_bytes);
      const double expected = precision == DType::bf16 ? 0.75 : 1;
      if (std::abs(fraction - expected) > 0.02) fail("sends {:.3f} of the bytes", fraction);
    }
  }
}

void run_auto() {
  const auto expect = [](const char* name, const TrainConfig& config, bool sharded) {
    const auto communicator = make_mpi_communicator(config.comm_options());
    const auto backend = make_cpu_backend(1);
    const ModelReplica replica(config, pieces, *backend, *communicator);
    if (replica.sharding.shards_optimizer() != sharded)
      fail("{}: auto is not {}", name, sharded ? "sharded" : "replicated");
  };
  TrainConfig config = config_of(OptimizerPlacement::automatic, DType::bf16, "1u");
  expect("bf16 weights", config, has_same_bits());
  config.communication.gradient_wire = GradientWire::bf16;
  expect("bf16 gradients", config, false);
  config.communication.gradient_wire = GradientWire::f32;
  config.checkpoint.every = "29u";
  expect("a checkpoint every 29 updates", config, false);
  config.checkpoint.every = "30u";
  expect("a checkpoint every 30 updates", config, has_same_bits());
  config.lab.parameters.window = "1u";
  expect("lab.parameters.window", config, false);
  expect("f32 weights", config_of(OptimizerPlacement::automatic, DType::f32, "1u"), false);
}

void run(const std::filesystem::path& folder) {
  {
    const auto communicator = make_mpi_communicator({});
    if (communicator->rank() == 0) std::filesystem::remove_all(folder);
    communicator->barrier();
  }
  run_bits(folder);
  run_auto();
  TrainConfig config = config_of(OptimizerPlacement::replicated, DType::bf16, "25u");
  const double f32 = mean_loss(train(config));
  config.communication.optimizer = OptimizerPlacement::sharded;
  for (const GradientWire wire : {GradientWire::bf16, GradientWire::int8}) {
    config.communication.gradient_wire = wire;
    const double loss = mean_loss(train(config));
    if (!(std::abs(loss - f32) < 0.02 * f32))
      fail("{}: the loss at the end is {}, with f32 {}", name_of(wire), loss, f32);
  }
  fmt::print("shares_training: passed\n");
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  try {
    babelring::MpiSession mpi(argc, argv, std::chrono::seconds(120));
    if (argc != 2) babelring::fail("expected FOLDER");
    babelring::run(argv[1]);
    mpi.finalize(std::chrono::seconds(120), 0);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "shares_training: {}\n", failure.what());
    babelring::abort_mpi(1);
  }
}

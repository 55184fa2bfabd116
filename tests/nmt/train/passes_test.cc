#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <tuple>
#include <utility>

#include "nmt/data/text_source.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/small_training.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

/// How a rank gives the passes of its updates to a backend. `begun` is called before the first.
std::vector<StepRecord> train_on(
    const TrainConfig& config, const Corpus& corpus, Backend& backend, Communicator& communicator,
    const std::function<void(const Model&)>& begun = [](const Model&) {}) {
  Collector records;
  const StopRequest stop;
  TextSource source(corpus, config.plan_options());
  Trainer trainer({.config = config,
                   .backend = backend,
                   .communicator = communicator,
                   .source = source,
                   .records = records,
                   .stop = stop,
                   .model_vocabulary = pieces});
  trainer.begin("r_00000000000000000000000000", 1);
  begun(trainer.model());
  trainer.run();
  return records.steps;
}

std::vector<StepRecord> train_alone(const TrainConfig& config, const Corpus& corpus, const std::string& device) {
  return train_on(config, corpus, *make_test_backend(device), *make_single_communicator());
}

std::vector<float> downloaded(Backend& backend, ConstTensor tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  backend.download(tensor, values.data());
  return values;
}

/// Sums gradients in the devices' memory, as NCCL does, but by way of the host.
class DeviceThreads final : public ThreadCommunicator {
 public:
  DeviceThreads(ThreadGroup& group, int rank, Backend& backend)
      : ThreadCommunicator(group, rank, true), backend_(backend) {}
  Buffer allocate(std::size_t bytes) override { return backend_.allocate(bytes); }
  void all_reduce_start(Tensor tensor) override { to_sum_.push_back(tensor); }
  void all_reduce_finish() override {
    for (const Tensor& tensor : std::exchange(to_sum_, {})) {
      std::vector<float> values = downloaded(backend_, tensor);
      std::vector<double> sums(values.begin(), values.end());
      sum(sums);
      values.assign(sums.begin(), sums.end());
      backend_.upload(values.data(), tensor);
    }
  }

 private:
  Backend& backend_;
  std::vector<Tensor> to_sum_;
};

/// The reports of two ranks, each on the emulated GPU of its number.
std::vector<std::vector<StepRecord>> train_pair(const TrainConfig& config, const Corpus& corpus) {
  ThreadGroup group(2);
  std::vector<std::vector<StepRecord>> steps(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto backend = make_emulated_cuda_backend(rank);
      DeviceThreads communicator(group, rank, *backend);
      steps[static_cast<std::size_t>(rank)] = train_on(config, corpus, *backend, communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return steps;
}

/// Sees the weights whenever the losses of an update are shared.
class WeightsAtLosses final : public ThreadCommunicator {
 public:
  WeightsAtLosses(ThreadGroup& group, Backend& backend) : ThreadCommunicator(group, 0), backend_(backend) {}
  void sum(std::vector<double>& values) override {
    ThreadCommunicator::sum(values);
    constexpr std::size_t sums_of_an_update = 14;  // losses, votes, time and entropy
    if (values.size() == sums_of_an_update) seen.push_back(downloaded(backend_, model->parameters().masters()));
  }
  const Model* model = nullptr;
  std::vector<std::vector<float>> seen;

 private:
  Backend& backend_;
};

/// Updates of one shape, two passes each.
TrainConfig updates_of_one_shape() {
  TrainConfig config = small_config();
  config.model = {.encoder_layers = 1, .decoder_layers = 1, .width = 16, .heads = 2, .inner = 16, .dropout = 0.1};
  config.data.tokens_per_update = 64;
  config.data.micro_batch_tokens = 32;
  config.training.guided_alignment = 0.1;
  config.training.stop_after = "6u";
  return config;
}
Corpus sentences_of_one_length() {
  return make_synthetic(
      {.sentences = 64, .vocabulary_size = pieces, .min_length = 7, .max_length = 7, .seed = 3, .links = true});
}

class PassesOnDevice : public testing::TestWithParam<std::tuple<const char*, bool>> {};
INSTANTIATE_TEST_SUITE_P(Devices, PassesOnDevice,
                         testing::Combine(testing::Values("emulated", "cuda"), testing::Bool()), [](const auto& test) {
                           return std::get<0>(test.param) + std::string(std::get<1>(test.param) ? "_modern" : "");
                         });

/// On the GPU's own code: recorded and repeated, each with its own dropout, passes give the same bits.
TEST_P(PassesOnDevice, RepeatedAsGraphsChangeNothing) {
  const auto& [device, modern] = GetParam();
  if (device == std::string("cuda") && !find_cuda()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  const Corpus corpus = sentences_of_one_length();
  TrainConfig config = updates_of_one_shape();
  if (modern) config.model = with_modern_layers(config.model);
  config.training.r_drop = 1;
  const std::vector<StepRecord> given = train_alone(config, corpus, device);
  config.training.cuda_graphs = true;
  const std::vector<StepRecord> repeated = train_alone(config, corpus, device);
  ASSERT_EQ(repeated.size(), 6U);
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(repeated[i].loss, given[i].loss) << i + 1;
    EXPECT_EQ(repeated[i].alignment_loss, given[i].alignment_loss) << i + 1;
    EXPECT_EQ(repeated[i].r_drop_loss, given[i].r_drop_loss) << i + 1;
    EXPECT_EQ(repeated[i].weights_digest, given[i].weights_digest) << i + 1;
    EXPECT_EQ(repeated[i].flops, given[i].flops) << i + 1;
    // One third of a whole pass counts as forward, and uploads before it count fully.
    EXPECT_LE(repeated[i].times.backward, 2.000001 * repeated[i].times.forward) << i + 1;
    EXPECT_GT(repeated[i].times.backward, 0) << i + 1;
    for (const StepRecord& step : {given[i], repeated[i]}) {
      EXPECT_GT(step.times.forward + step.times.backward, 0);
      EXPECT_GE(step.times.other, 0);
      EXPECT_GT(step.busy_fraction, 0);
      EXPECT_LE(step.busy_fraction, 1);
      EXPECT_NEAR(step.times.sum_of_parts(), step.times.step, 1e-6 * step.times.step);
    }
  }
}

/// The gradients of two ranks are summed where they are, when the last pass, repeated or not, is over.
TEST(Passes, RepeatedAsGraphsOnTwoRanksChangeNothing) {
  const Corpus corpus = sentences_of_one_length();
  TrainConfig config = updates_of_one_shape();
  config.data.tokens_per_update = 128;
  config.training.guided_alignment = 0;
  config.training.layer_drop = 0.5;  // several recordings
  const auto given = train_pair(config, corpus);
  config.training.cuda_graphs = true;
  const auto repeated = train_pair(config, corpus);
  ASSERT_EQ(repeated[0].size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(repeated[0][i].loss, given[0][i].loss) << i + 1;
    for (const auto& steps : {given[1], repeated[0], repeated[1]}) {
      EXPECT_EQ(steps[i].weights_digest, given[0][i].weights_digest) << i + 1;
    }
    EXPECT_LE(repeated[1][i].times.backward, 2.000001 * repeated[1][i].times.forward) << "given as a whole";
  }
}

/// Otherwise it would have nothing to do while the host looks at the norm and shares the losses.
TEST_P(PassesOnDevice, AreFollowedByAdamBeforeTheHostSharesTheLosses) {
  const std::string device = std::get<0>(GetParam());
  if (device == "cuda" && !find_cuda()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  TrainConfig config = updates_of_one_shape();
  if (std::get<1>(GetParam())) config.model = with_modern_layers(config.model);
  config.training.stop_after = "3u";
  const auto backend = make_test_backend(device);
  ThreadGroup group(1);
  WeightsAtLosses communicator(group, *backend);
  std::vector<float> first;
  train_on(config, sentences_of_one_length(), *backend, communicator, [&](const Model& begun) {
    communicator.model = &begun;
    first = downloaded(*backend, begun.parameters().masters());
  });
  ASSERT_EQ(communicator.seen.size(), 3U);
  EXPECT_NE(communicator.seen[0], first);
  EXPECT_NE(communicator.seen[1], communicator.seen[0]);
}

/// Without this, the host would keep one block for every micro-batch that was larger than all before.
TEST(Passes, ShareOneHostBlockIfTheirSizesVary) {
  const auto backend = make_cpu_backend(1);
  ActivationArenas arenas(*backend);
  std::vector<Tensor> tensors;
  for (const std::int64_t rows : {5000, 6000, 6000}) {  // each tensor exceeds the default block size
    Context context = arenas.begin(DType::f32);
    tensors.clear();
    for (int i = 0; i < 3; ++i) tensors.push_back(context.saved.make(Shape{rows, 1024}, DType::f32));
  }
  EXPECT_EQ(tensors[1].as<float>() - tensors[0].as<float>(), 6000 * 1024);
  EXPECT_EQ(tensors[2].as<float>() - tensors[1].as<float>(), 6000 * 1024);
}

TEST(Passes, AreAsFewAsPossibleByDefault) {
  const Corpus corpus = make_synthetic({.sentences = 100, .vocabulary_size = pieces, .max_length = 12});
  TrainConfig config = small_config();
  config.training.stop_after = "5u";
  const std::vector<StepRecord> whole = train_alone(config, corpus, "cpu");
  config.data.micro_batch_tokens = DataConfig::automatic;
  const std::vector<StepRecord> found = train_alone(config, corpus, "cpu");
  ASSERT_EQ(found.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(found[i].weights_digest, whole[i].weights_digest);
}

}  // namespace
}  // namespace babelring

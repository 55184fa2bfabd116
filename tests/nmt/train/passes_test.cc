#include <gtest/gtest.h>

#include "nmt/train/trainer.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/small_training.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

/// How one rank gives the passes of its updates to a backend.
std::vector<StepRecord> train_alone(const TrainConfig& config, const Corpus& corpus, const std::string& device) {
  const auto backend = make_test_backend(device);
  const auto communicator = make_single_communicator();
  Collector records;
  const StopRequest stop;
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = *communicator,
                   .corpus = corpus,
                   .records = records,
                   .stop = stop,
                   .model_vocabulary = pieces});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
  return records.steps;
}

double parts_of(const StepRecord& step) {
  return step.data_ms + step.forward_ms + step.backward_ms + step.exposed_communication_ms + step.optimizer_ms +
         step.other_ms;
}

class PassesOnDevice : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, PassesOnDevice, testing::Values("emulated", "cuda"),
                         [](const auto& device) { return std::string(device.param); });

/// Updates of one shape, two passes each, on the GPU's own code: recorded and repeated, each with its own dropout, they
/// give the same bits.
TEST_P(PassesOnDevice, RepeatedAsGraphsChangeNothing) {
  const std::string device = GetParam();
  if (device == "cuda" && find_cuda().devices == 0) GTEST_SKIP() << "no GPU: " << find_cuda().why;
  const Corpus corpus =
      make_synthetic({.sentences = 64, .vocabulary_size = pieces, .min_length = 7, .max_length = 7, .seed = 3});
  TrainConfig config = small_config();
  config.model = {.encoder_layers = 1, .decoder_layers = 1, .width = 16, .heads = 2, .inner = 16, .dropout = 0.1};
  config.data.tokens_per_update = 64;
  config.data.micro_batch_tokens = 32;
  config.training.stop_after = "6u";
  const std::vector<StepRecord> given = train_alone(config, corpus, device);
  config.training.cuda_graphs = true;
  const std::vector<StepRecord> repeated = train_alone(config, corpus, device);
  ASSERT_EQ(repeated.size(), 6U);
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(repeated[i].loss, given[i].loss) << i + 1;
    EXPECT_EQ(repeated[i].weights_digest, given[i].weights_digest) << i + 1;
    EXPECT_EQ(repeated[i].flops, given[i].flops) << i + 1;
    // Of a pass given as a whole a third counts as forward, and so does what is uploaded before it.
    EXPECT_LE(repeated[i].backward_ms, 2.000001 * repeated[i].forward_ms) << i + 1;
    EXPECT_GT(repeated[i].backward_ms, 0) << i + 1;
    for (const StepRecord& step : {given[i], repeated[i]}) {
      EXPECT_GT(step.forward_ms + step.backward_ms, 0);
      EXPECT_GE(step.other_ms, 0);
      EXPECT_GT(step.busy_fraction, 0);
      EXPECT_LE(step.busy_fraction, 1);
      EXPECT_NEAR(parts_of(step), step.step_ms, 1e-6 * step.step_ms);
    }
  }
}

/// Or a host would hold what every size of micro-batch took that was larger than those before it.
TEST(Passes, OfVaryingSizesTakeOneBlockOfTheHosts) {
  const auto backend = make_cpu_backend(1);
  Workspace workspace(*backend);
  std::vector<Tensor> tensors;
  for (const std::int64_t rows : {5000, 6000, 6000}) {  // a tensor is more than a block would be otherwise
    Context context = workspace.begin(DType::f32);
    tensors.clear();
    for (int i = 0; i < 3; ++i) tensors.push_back(context.saved.make(Shape{rows, 1024}, DType::f32));
  }
  EXPECT_EQ(tensors[1].as<float>() - tensors[0].as<float>(), 6000 * 1024);
  EXPECT_EQ(tensors[2].as<float>() - tensors[1].as<float>(), 6000 * 1024);
}

TEST(Passes, OfAutoAreAsFewAsFit) {
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

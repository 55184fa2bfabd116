#include <gtest/gtest.h>

#include "nmt/data/batch_plan.h"
#include "nmt/data/text_source.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/small_training.h"

namespace babelring {
namespace {

/// Teacher-forced token accuracy of the newest checkpoint on unseen sentences.
double held_out_accuracy(const Trainer& trainer, Backend& backend, SyntheticTask task) {
  const Corpus corpus =
      make_synthetic({.task = task, .sentences = 200, .vocabulary_size = pieces, .max_length = 12, .seed = 99});
  ActivationArenas arenas(backend);
  LossSums sums;
  for (const PackedBatch& batch : sequential_batches(corpus, 0, corpus.sentences(), 1000)) {
    Context context = arenas.begin(trainer.model().compute_dtype());
    sums += trainer.model().evaluate(context, DeviceBatch(backend, context.saved, batch));
  }
  return sums.correct / sums.tokens;
}

class ToyTask : public testing::TestWithParam<std::tuple<SyntheticTask, DType, bool>> {};

TEST_P(ToyTask, IsLearnedAlmostPerfectly) {
  const auto [task, precision, modern] = GetParam();
  TrainConfig config = small_config();
  if (modern) config.model = with_modern_layers(config.model);
  config.training.precision = precision;
  config.training.stop_after = "1000u";
  config.training.digest_every = "0u";
  config.model.width = 64;
  config.model.inner = 128;
  config.model.dropout = 0;
  config.data.tokens_per_update = 800;
  config.optimizer.schedule.warm_up = "200u";
  const Corpus corpus = make_synthetic({.task = task, .sentences = 20000, .vocabulary_size = pieces, .max_length = 12});
  const auto communicator = make_single_communicator();
  const auto backend = make_cpu_backend(1);
  Collector records;
  const StopRequest stop;
  TextSource source(corpus, config.plan_options());
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = *communicator,
                   .source = source,
                   .records = records,
                   .stop = stop,
                   .model_vocabulary = pieces});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
  EXPECT_GT(held_out_accuracy(trainer, *backend, task), 0.99);
}

INSTANTIATE_TEST_SUITE_P(Tasks, ToyTask,
                         testing::Values(std::tuple(SyntheticTask::copy, DType::bf16, false),
                                         std::tuple(SyntheticTask::reverse, DType::f32, true)));

}  // namespace
}  // namespace babelring

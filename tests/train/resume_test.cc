#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "nmt/data/batch.h"
#include "nmt/train/trainer.h"
#include "tests/data/synthetic.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/small_training.h"

namespace babelring {
namespace {

class Resume : public testing::Test {
 protected:
  /// Trains one rank until `stop_after`, with the checkpoints of `folder_`.
  std::vector<StepRecord> train(const std::string& stop_after) {
    config_.training.stop_after = stop_after;
    Collector records;
    CheckpointKeeper keeper(config_, folder_.path(), "", *backend_, *communicator_, records);
    const StopRequest stop;
    Trainer trainer({.config = config_,
                     .backend = *backend_,
                     .communicator = *communicator_,
                     .corpus = corpus_,
                     .checkpoints = &keeper,
                     .records = records,
                     .stop = stop,
                     .model_vocabulary = pieces});
    trainer.begin("r_00000000000000000000000000", 1);
    trainer.run();
    return records.steps;
  }

  const TemporaryFolder folder_;
  TrainConfig config_ = small_config();
  const Corpus corpus_ =
      make_synthetic({.task = SyntheticTask::reverse, .sentences = 500, .vocabulary_size = pieces, .max_length = 12});
  const std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  const std::unique_ptr<Communicator> communicator_ = make_single_communicator();
};

TEST_F(Resume, OtherUpdatesContinueWhereTheTextWas) {
  std::vector<StepRecord> steps = train("13u");
  for (const auto& [tokens, end] : {std::pair{90, "17u"}, std::pair{500, "20u"}, std::pair{150, "2e"}}) {
    config_.data.tokens_per_update = tokens;
    for (StepRecord& step : train(end)) steps.push_back(std::move(step));
  }
  std::int64_t sentences = 0;
  double epoch = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].update, static_cast<std::int64_t>(i) + 1);
    EXPECT_GT(steps[i].epoch, epoch);
    epoch = steps[i].epoch;
    sentences += steps[i].sentences;
    EXPECT_EQ(epoch == 1, sentences == 500) << "update " << i + 1;
  }
  EXPECT_EQ(epoch, 2);
  EXPECT_EQ(sentences, 1000);
}

/// A version that had no other order wrote neither the order nor the position.
TEST_F(Resume, AnOldCheckpointContinuesInItsOrder) {
  const Plan old(corpus_, {.tokens_per_update = 200, .max_length = 256, .order = DataOrder::pooled});
  std::vector<UpdatePlan> updates;
  for (DataPosition position; updates.size() < 30; position = updates.back().next) updates.push_back(old(position));

  train("1u");
  {
    Collector records;
    CheckpointKeeper keeper(config_, folder_.path(), "", *backend_, *communicator_, records);
    const Transformer model(config_.model, pieces, 0.1f, *backend_, DType::f32);
    const Adam adam(model.parameters(), *backend_, config_.optimizer.adam);
    const double epoch = 25 / static_cast<double>(old.updates_per_epoch());
    EXPECT_EQ("", keeper.save(model, adam,
                              {.progress = {.update = 25, .epoch = epoch},
                               .data_order = DataOrder::pooled,
                               .position = std::nullopt,
                               .corpus_digest = corpus_.digest()},
                              {}));
  }
  const auto expect_old = [&](const std::vector<StepRecord>& steps, std::size_t first, std::size_t last) {
    ASSERT_EQ(steps.size(), last - first);
    for (std::size_t i = first; i < last; ++i) {
      EXPECT_EQ(steps[i - first].update_target_tokens, updates[i].target_tokens);
      EXPECT_EQ(steps[i - first].sentences, static_cast<std::int64_t>(updates[i].sentences.size()));
    }
  };
  expect_old(train("28u"), 25, 28);
  expect_old(train("30u"), 28, 30);
}

TEST(RunStateTest, KeepsThePositionAndReadsStatesWithoutIt) {
  RunState state{.run = "r", .progress = {.update = 7, .epoch = 1.25}, .position = DataPosition{1, 17}};
  json::object object = to_json(state);
  EXPECT_EQ(run_state_from_json(object).position, (DataPosition{1, 17}));
  EXPECT_EQ(run_state_from_json(object).data_order, DataOrder::shuffled);
  for (const char* member : {"data_order", "data_epoch", "data_sentences"}) object.erase(member);
  EXPECT_EQ(run_state_from_json(object).position, std::nullopt);
  EXPECT_EQ(run_state_from_json(object).data_order, DataOrder::pooled);
  object["data_order"] = "sorted";
  EXPECT_THAT(
      [&] { run_state_from_json(object); },
      testing::ThrowsMessage<Failure>("state.json: member 'data_order' is 'sorted', expected shuffled or pooled"));
}

}  // namespace
}  // namespace babelring

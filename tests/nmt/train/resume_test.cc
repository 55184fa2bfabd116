#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <thread>

#include "nmt/data/batch_plan.h"
#include "nmt/data/text_source.h"
#include "nmt/train/setup/own_libraries.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/small_training.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

class Resume : public testing::Test {
 protected:
  /// Trains one rank until `stop_after` with checkpoints in `folder_`. Stores the final weights in weights_.
  std::vector<StepRecord> train(const char* stop_after, bool accept_changes = false, int threads = 1) {
    config_.training.stop_after = stop_after;
    Collector records;
    Checkpointer keeper(config_, folder_.path(), "", *backend_, *communicator_, records);
    const StopRequest stop;
    TextSource source(corpus_, config_.plan_options());
    Trainer trainer({.config = config_,
                     .backend = *backend_,
                     .communicator = *communicator_,
                     .source = source,
                     .checkpoints = &keeper,
                     .records = records,
                     .stop = stop,
                     .threads = threads,
                     .model_vocabulary = pieces});
    trainer.begin("r_00000000000000000000000000", 1, {.accept_changes = accept_changes});
    trainer.run();
    weights_ = bytes_of(trainer.model().parameters());
    return records.steps;
  }
  BatchPlan old_plan() const {
    return {corpus_, {.tokens_per_update = 200, .max_length = 256, .order = DataOrder::pooled}};
  }
  /// Writes a checkpoint like an older version that knew the pooled data order only.
  void write_old_checkpoint(std::int64_t update) {
    const double epoch = static_cast<double>(update) / static_cast<double>(old_plan().updates_per_epoch());
    write_checkpoint({.progress = {.update = update, .epoch = epoch},
                      .data_order = DataOrder::pooled,
                      .position = std::nullopt,
                      .corpus_digest = corpus_.digest()});
  }
  void write_checkpoint(const TrainingState& state) {
    Collector records;
    Checkpointer keeper(config_, folder_.path(), "", *backend_, *communicator_, records);
    const ModelReplica replica(config_, pieces, *backend_, *communicator_);
    EXPECT_TRUE(keeper.save(replica, state, {}).ok());
  }
  /// The error message of an attempt to resume.
  std::string refusal(bool accept_changes = false) {
    try {
      train("100u", accept_changes);
    } catch (const UsageFailure& failure) {
      return failure.what();
    }
    return "trained";
  }
  /// The bytes of each parameter by name.
  static std::map<std::string, std::string> bytes_of(const ParameterStore& store) {
    std::map<std::string, std::string> bytes;
    for (const Parameter& parameter : store.all()) {
      bytes[parameter.name] = {parameter.master.as<char>(), parameter.master.bytes()};
    }
    return bytes;
  }

  const TemporaryFolder folder_;
  std::map<std::string, std::string> weights_;  // at the end of the last train()
  TrainConfig config_ = small_config();
  Corpus corpus_ =
      make_synthetic({.task = SyntheticTask::reverse, .sentences = 500, .vocabulary_size = pieces, .max_length = 12});
  const std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  const std::unique_ptr<Communicator> communicator_ = make_single_communicator();
};

TEST_F(Resume, AChangedUpdateSizeContinuesAtTheDataPosition) {
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

TEST_F(Resume, AnOldCheckpointKeepsItsDataOrder) {
  const BatchPlan old = old_plan();
  std::vector<UpdatePlan> updates;
  for (DataPosition position; updates.size() < 30; position = updates.back().next) updates.push_back(old(position));
  train("1u");
  write_old_checkpoint(25);
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

TEST_F(Resume, APositionBeyondTheCorpusIsDerivedFromTheEpoch) {
  write_checkpoint(
      {.progress = {.update = 4, .epoch = 1.5}, .position = DataPosition{1, 500}, .corpus_digest = corpus_.digest()});
  const std::vector<StepRecord> steps = train("5u");
  ASSERT_EQ(steps.size(), 1);
  EXPECT_GT(steps[0].epoch, 1.5);
  EXPECT_LT(steps[0].epoch, 2);
}

TEST_F(Resume, ListsEveryDifference) {
  train("3u");
  config_.optimizer.schedule.learning_rate = 0.001;
  config_.checkpoint.keep_last = 7;
  const LogCapture log;
  train("4u", false, 3);
  for (const char* line : {"optimizer.learning_rate 0.003 → 0.001", "training.stop_after 3u → 4u",
                           "checkpoint.keep_last 5 → 7", "threads per rank 1 → 3"}) {
    EXPECT_EQ(log.count(std::string("differs from the checkpoint: ") + line + "\n"), 1) << line << "\n" << log.text();
  }
  EXPECT_EQ(log.count("differs from the checkpoint"), 4) << log.text();
}

TEST_F(Resume, AnotherOneDnnIsNamedInOneLine) {
  const auto lines_after = [this](const LibraryVersions& writer, const char* until) {
    write_checkpoint({.progress = {.update = 4, .epoch = 0.1}, .libraries = writer, .corpus_digest = corpus_.digest()});
    const LogCapture log;
    train(until);
    EXPECT_EQ(log.count("oneDNN"), log.count("the checkpoint was written with oneDNN 2.0.9, this attempt has "))
        << log.text();
    return log.count("bf16 results may differ in their last bits from those of an unbroken run, f32 results do not");
  };
  EXPECT_EQ(lines_after({.onednn = "2.0.9"}, "5u"), 1);
  EXPECT_EQ(lines_after(own_libraries(), "6u"), 0);
  EXPECT_EQ(lines_after({}, "7u"), 0) << "of a version that stored none";
  LibraryVersions others = own_libraries();
  others.open_mpi = "1.0.0";
  EXPECT_EQ(lines_after(others, "8u"), 0);
}

TEST_F(Resume, CheckpointsHoldTheLibrariesOfTheirWriter) {
  TrainingState state = {.libraries = {.onednn = "2.6.3", .glibc = "2.36"}};
  json::object stored = to_json(state);
  EXPECT_EQ(run_state_from_json(stored).libraries, state.libraries);
  stored.erase("libraries");
  EXPECT_EQ(run_state_from_json(stored).libraries, LibraryVersions()) << "of a version that stored none";
  train("2u");
  const Result<Checkpoint> written = load_checkpoint(folder_.path() / checkpoint_name(2));
  ASSERT_TRUE(written.ok()) << written.error();
  EXPECT_EQ(run_state_from_json(written->state).libraries, own_libraries());
}

TEST_F(Resume, AChangedOrderOrModelIsRejectedUnlessAccepted) {
  std::vector<StepRecord> steps = train("13u");
  const TrainConfig trained = config_;
  const auto expect_refused = [&](const char* change, const char* until) {
    EXPECT_THAT(refusal(), testing::AllOf(testing::HasSubstr(change), testing::HasSubstr("--accept-changes")));
    for (StepRecord& step : train(until, true)) steps.push_back(std::move(step));
  };
  config_.training.seed = 5;
  expect_refused("training.seed 1 → 5", "15u");
  config_.data.max_length = 9;
  expect_refused("data.max_length 256 → 9", "18u");
  config_.model.dropout = 0.2;
  expect_refused("model.dropout 0.1 → 0.2", "20u");
  corpus_ = make_synthetic({.task = SyntheticTask::copy, .sentences = 700, .vocabulary_size = pieces});
  EXPECT_THAT(refusal(), testing::HasSubstr("training.start_from"));
  expect_refused("data.folder: corpus ", "2e");
  double epoch = 0;
  for (const StepRecord& step : steps) {
    EXPECT_GT(step.epoch, epoch) << "update " << step.update;
    epoch = step.epoch;
  }
  EXPECT_EQ(epoch, 2);
}

TEST_F(Resume, MismatchedWeightsAreAlwaysRejected) {
  train("2u");
  config_.model.width = 64;
  config_.model.decoder_layers = 3;
  for (const bool accept : {false, true}) {
    EXPECT_THAT(refusal(accept),
                testing::AllOf(testing::HasSubstr("do not fit: model.decoder_layers 2 → 3, model.width 32 → 64"),
                               testing::Not(testing::HasSubstr("weight "))));
  }
}

TEST_F(Resume, AnOldOrderEndsOnlyIfAccepted) {
  train("1u");
  write_old_checkpoint(25);
  config_.data.tokens_per_update = 100;
  EXPECT_THAT(refusal(), testing::HasSubstr("data.tokens_per_update 200 → 100"));
  const std::vector<StepRecord> steps = train("30u", true);
  EXPECT_GT(steps.front().epoch, 25.0 / static_cast<double>(old_plan().updates_per_epoch()));
}

TEST_F(Resume, ANewRunStartsFromGivenWeights) {
  train("5u");
  const auto before = weights_;
  config_.training.start_from = (folder_.path() / "update-00000005").string();
  config_.optimizer.schedule.learning_rate = 0;
  corpus_ = make_synthetic({.task = SyntheticTask::copy, .sentences = 300, .vocabulary_size = pieces});
  const TemporaryFolder second;
  std::filesystem::rename(folder_.path(), second.path() / "first");
  config_.training.start_from = (second.path() / "first" / "update-00000005").string();
  const std::vector<StepRecord> steps = train("1u");
  EXPECT_EQ(steps.at(0).update, 1);
  EXPECT_LT(steps[0].epoch, 0.3);
  EXPECT_EQ(weights_, before);

  const LogCapture log;
  EXPECT_EQ(train("2u").at(0).update, 2);
  EXPECT_EQ(log.count("training.start_from is ignored: the run has checkpoints"), 1) << log.text();
}

TEST_F(Resume, MismatchedStartWeightsAreRejected) {
  config_.training.start_from = "/dev/null/checkpoint";
  EXPECT_THAT(refusal(), testing::HasSubstr("training.start_from: "));
  const TemporaryFolder second;
  config_.training.start_from.clear();
  train("2u");
  std::filesystem::rename(folder_.path(), second.path() / "first");
  config_.training.start_from = (second.path() / "first" / "update-00000002").string();
  config_.model.inner = 32;
  EXPECT_THAT(refusal(), testing::HasSubstr("do not fit this model: model.inner 64 → 32"));
  config_.model.inner = 64, config_.model.activation = Activation::swish;
  EXPECT_THAT(refusal(), testing::HasSubstr("do not fit this model: model.activation relu → swish"));
  config_.model.activation = Activation::swiglu, config_.model.norm_kind = NormKind::rms;
  EXPECT_THAT(refusal(),
              testing::HasSubstr("do not fit this model: model.activation relu → swiglu, model.norm_kind layer → rms"));
  config_.model.activation = Activation::relu, config_.model.norm_kind = NormKind::layer;
  config_.model.positions = Positions::rotary;  // the parameters are the same
  EXPECT_THAT(refusal(), testing::HasSubstr("do not fit this model: model.positions sinusoid → rotary"));
  config_.model.positions = Positions::sinusoid, config_.model.initialization = Initialization::depth_scaled;
  EXPECT_EQ(train("3u").size(), 3U);
}

TEST_F(Resume, FrozenParametersDoNotChange) {
  train("2u");
  const auto before = weights_;
  config_.training.freeze = "encoder.*,embedding,*.norm.gain";
  config_.optimizer.adam.weight_decay = 0.1;
  for (const DType precision : {DType::f32, DType::bf16}) {
    config_.training.precision = precision;
    train(precision == DType::f32 ? "6u" : "9u");
    int frozen = 0;
    for (const auto& [name, bytes] : weights_) {
      const bool kept = name.starts_with("encoder.") || name == "embedding" || name.ends_with(".norm.gain");
      EXPECT_EQ(bytes == before.at(name), kept) << name;
      frozen += kept ? 1 : 0;
    }
    EXPECT_GT(frozen, 20);
  }
}

TEST_F(Resume, AGlobThatMatchesNothingOrAllIsRejected) {
  config_.training.freeze = "decoder.*,encoder.9.*";
  EXPECT_THAT(refusal(), testing::AllOf(testing::HasSubstr("'encoder.9.*' matches no parameter"),
                                        testing::HasSubstr("embedding, ")));
  config_.training.freeze = "*";
  EXPECT_THAT(refusal(), testing::HasSubstr("nothing is left to train"));
}

/// Only rank 0 reads the checkpoint, but all ranks must fail.
TEST(ResumeOnRanks, AllRanksFailWithTheSameError) {
  const TemporaryFolder folder;
  const Corpus corpus = make_synthetic({.sentences = 200, .vocabulary_size = pieces, .max_length = 12});
  const auto train = [&](int seed) {
    ThreadGroup group(2);
    std::vector<std::string> ends(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const auto communicator = group.rank(rank);
        const auto backend = make_cpu_backend(1);
        TrainConfig config = small_config();
        config.training.stop_after = "2u";
        config.training.seed = seed;
        Collector records;
        const StopRequest stop;
        Checkpointer keeper(config, folder.path(), "", *backend, *communicator, records);
        TextSource source(corpus, config.plan_options());
        Trainer trainer({.config = config,
                         .backend = *backend,
                         .communicator = *communicator,
                         .source = source,
                         .checkpoints = &keeper,
                         .records = records,
                         .stop = stop,
                         .model_vocabulary = pieces});
        try {
          trainer.begin("r_00000000000000000000000000", 1);
          ends[static_cast<std::size_t>(rank)] = trainer.run().text;
        } catch (const UsageFailure& failure) {
          ends[static_cast<std::size_t>(rank)] = failure.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return ends;
  };
  EXPECT_THAT(train(1), testing::Each(testing::HasSubstr("finished")));
  EXPECT_THAT(train(2), testing::Each(testing::HasSubstr("training.seed 1 → 2")));
}

TEST(RunStateTest, KeepsThePositionAndReadsStatesWithoutIt) {
  TrainingState state{.run = "r", .progress = {.update = 7, .epoch = 1.25}, .position = DataPosition{1, 17}};
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

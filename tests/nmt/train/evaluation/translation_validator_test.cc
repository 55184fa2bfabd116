#include "nmt/train/evaluation/translation_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include <boost/json/object.hpp>

#include "base/files.h"
#include "base/names.h"
#include "nmt/data/batch_plan.h"
#include "nmt/data/prepare.h"
#include "nmt/data/text_source.h"
#include "nmt/metrics/significance.h"
#include "nmt/model/transformer.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/setup/task_data.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/small_training.h"
#include "tests/nmt/train/weight_killer.h"
#include "tests/reference/closed_backend.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

constexpr int held_out_count = 7;

std::string made_up_sentence(int i) {
  const char* words[] = {"the", "quick", "brown", "fox", "sees", "a", "lazy", "dog"};
  std::string text;
  for (int k = 0; k < 4 + i % 5; ++k) text += std::string(k > 0 ? " " : "") + words[(i + k * (1 + i % 3)) % 8];
  return text + " " + std::to_string(i);
}

std::string made_up_text(const std::string& side, int first, int count) {
  std::string text;
  for (int i = first; i < first + count; ++i) text += side + " " + made_up_sentence(i) + "\n";
  return text;
}

class TranslationValidatorTest : public testing::Test {
 protected:
  TranslationValidatorTest() {
    PrepareOptions options;
    options.train = {
        {folder_.write("train.a", made_up_text("one", 0, 60)), folder_.write("train.b", made_up_text("two", 0, 60))}};
    options.valid = TextFiles{folder_.write("valid.a", made_up_text("one", 60, held_out_count)),
                              folder_.write("valid.b", made_up_text("two", 60, held_out_count))};
    options.test = TextFiles{folder_.write("test.a", made_up_text("zzz", 90, held_out_count)),
                             folder_.write("test.b", made_up_text("yy zzz yy", 90, held_out_count))};
    options.output = folder_ / "data";
    options.vocabulary = {.size = 60};
    prepare(options);
    config_ = small_config();
    config_.data.folder = folder_ / "data";
    vocabulary_.emplace(Vocabulary::load(folder_ / "data" / "spm.model"));
  }

  /// A model with the weights of learn(), or with fixed initial weights.
  std::unique_ptr<Transformer> model(Backend& backend) const {
    auto model = std::make_unique<Transformer>(config_.model, vocabulary_->size(), 0.1f, backend, DType::f32);
    model->initialize(backend, 5);
    if (!weights_.empty()) read_weights(TensorFiles({weights_}), *model, backend);
    return model;
  }

  /// Trains until the most likely subwords are no longer repeats of the subword before.
  void learn() {
    config_.training.stop_after = "80u";
    Collector records;
    train(records);
    weights_ = folder_ / "checkpoints" / "update-00000080" / "weights.safetensors";
  }

  EvalRecord validate(Communicator& communicator, bool translate = false) const {
    const auto backend = make_closed_backend();  // validation must not access tensor memory from the host
    ActivationArenas arenas(*backend);
    return TranslationValidator(config_, *vocabulary_,
                                {.backend = *backend, .communicator = communicator, .arenas = arenas},
                                open_held_out_pairs({"valid", config_.data.folder}, *vocabulary_))
        .run(*model(*backend), translate);
  }

  /// The text of the most likely id at each target position, from the logits.
  std::string max_likely(const Transformer& model, Backend& backend, const Corpus& corpus, std::int64_t i) const {
    ActivationArenas arenas(backend);
    Context context = arenas.begin(DType::f32);
    const PackedBatch batch = sequential_batches(corpus, i, i + 1, 1).at(0);
    const DeviceBatch on_device(backend, context.saved, batch);
    const Tensor logits = model.teacher_forced_logits(context, on_device.source, on_device.target);
    std::vector<std::int32_t> ids;
    for (std::int64_t row = 0; row < logits.shape[0]; ++row) {
      const float* first = logits.as<float>() + row * logits.row_stride;
      ids.push_back(static_cast<std::int32_t>(std::max_element(first, first + logits.shape[1]) - first));
    }
    return vocabulary_->decode(ids);
  }

  /// Trains one rank with checkpoints. Calls `meanwhile` after all files are open. Gives the model to a WeightKiller.
  void train(Collector& records, const std::function<void()>& meanwhile = [] {}) {
    const auto backend = make_cpu_backend(1);
    const auto communicator = make_single_communicator();
    const Corpus corpus = Corpus::open(config_.data.folder, "train");
    const StopRequest stop;
    Checkpointer keeper(config_, folder_ / "checkpoints", vocabulary_->bytes(), *backend, *communicator, records);
    TextSource source(corpus, config_.plan_options());
    Trainer trainer({.config = config_,
                     .backend = *backend,
                     .communicator = *communicator,
                     .source = source,
                     .vocabulary = &*vocabulary_,
                     .checkpoints = &keeper,
                     .records = records,
                     .stop = stop,
                     .model_vocabulary = vocabulary_->size()});
    trainer.begin("r_00000000000000000000000000", 1);
    if (auto* killer = dynamic_cast<WeightKiller*>(&records)) killer->model = &trainer.model();
    meanwhile();
    trainer.run();
  }

  TemporaryFolder folder_;
  TrainConfig config_;
  std::optional<Vocabulary> vocabulary_;
  std::filesystem::path weights_;
  std::vector<EvalRecord> evaluations_;
};

TEST_F(TranslationValidatorTest, TeacherForcedBleuUsesTheMostLikelySubwords) {
  learn();
  const auto backend = make_cpu_backend(1);
  const std::unique_ptr<Transformer> trained = model(*backend);
  const Corpus corpus = Corpus::open(config_.data.folder, "valid");
  std::vector<std::string> said;
  for (int i = 0; i < held_out_count; ++i) said.push_back(max_likely(*trained, *backend, corpus, i));
  const std::vector<std::string> references = ParallelText::open(config_.data.folder, "valid").target;

  const EvalRecord record = validate(*make_single_communicator());
  EXPECT_EQ(record.teacher_forced_bleu, Bleu().corpus(said, {references}).score);
  EXPECT_GT(record.teacher_forced_bleu, 0);
  EXPECT_TRUE(std::isnan(record.sacrebleu));
}

/// All sentences are samples, so that the texts of two validations are known.
TEST_F(TranslationValidatorTest, TheDifferenceToTheBestIsThatOfTheTexts) {
  config_.validation.every = config_.validation.bleu_every = "30u";
  config_.validation.samples = held_out_count;
  config_.training.stop_after = "120u";
  Collector unbroken;
  train(unbroken);
  const auto statistics = [](const Metric& metric, const EvalRecord& record) {
    std::vector<std::string> hypotheses, references;
    for (const EvalSample& sample : record.samples) {
      hypotheses.push_back(sample.hypothesis);
      references.push_back(sample.reference);
    }
    return SentenceStatistics(metric, hypotheses, {references});
  };
  const std::unique_ptr<Metric> bleu = make_metric(MetricKind::bleu, {});
  std::size_t best = 0;
  int differ = 0;
  for (std::size_t i = 1; i < unbroken.evaluations.size(); ++i) {
    const EvalRecord &own = unbroken.evaluations[i], &before = unbroken.evaluations[best];
    EXPECT_EQ(own.resamples.size(), own.best ? 2U : 0U);
    EXPECT_EQ(own.best_before, before.update);
    EXPECT_EQ(own.above_best.difference, own.sacrebleu - before.sacrebleu);
    const SentenceStatistics now = statistics(*bleu, own), then = statistics(*bleu, before);
    if (own.sacrebleu != before.sacrebleu) {
      ++differ;
      EXPECT_EQ(own.above_best.p_value, Bootstrap(now, {}).p_value(Bootstrap(then, {})));
    } else {
      EXPECT_EQ(own.above_best.p_value == p_of_equals, now.equals(then));
    }
    if (own.best) best = i;
  }
  EXPECT_GT(differ, 0) << "the test has no two validations with other BLEU";

  std::filesystem::remove_all(folder_ / "checkpoints");
  Collector resumed;
  for (const char* end : {"30u", "60u", "120u"}) {
    config_.training.stop_after = end;
    train(resumed);
  }
  const auto said = [](const Collector& records) {
    std::vector<std::string> texts;
    for (const EvalRecord& record : records.evaluations) texts.push_back(difference_to_best(record));
    return texts;
  };
  EXPECT_EQ(said(resumed), said(unbroken));
}

TEST_F(TranslationValidatorTest, AModelThatRepeatsTheReferenceHasNoTeacherForcedBleu) {
  const EvalRecord record = validate(*make_single_communicator());
  EXPECT_LT(record.accuracy, 0.1);
  EXPECT_TRUE(std::isnan(record.teacher_forced_bleu)) << record.teacher_forced_bleu;
}

TEST_F(TranslationValidatorTest, UnitsGiveTheSameScoresForEveryNumberOfRanks) {
  learn();
  config_.training.reproducible = Reproducible::ranks;
  const EvalRecord one = validate(*make_single_communicator(), true);
  for (const int ranks : {2, 4}) {
    ThreadGroup group(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const EvalRecord record = validate(*group.rank(rank), true);
        EXPECT_EQ(record.loss, one.loss) << ranks << " ranks";
        EXPECT_EQ(record.nll, one.nll);
        EXPECT_EQ(record.teacher_forced_bleu, one.teacher_forced_bleu);
        EXPECT_EQ(record.sacrebleu, one.sacrebleu);
        ASSERT_EQ(record.samples.size(), one.samples.size());
        for (std::size_t i = 0; i < one.samples.size(); ++i) {
          EXPECT_EQ(record.samples[i].source, one.samples[i].source);
          EXPECT_EQ(record.samples[i].hypothesis, one.samples[i].hypothesis);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

/// Nothing that a validation or a checkpoint allocates stays behind.
TEST_F(TranslationValidatorTest, ValidationsAndCheckpointsLeakNoMemory) {
  config_.training.stop_after = "201u";
  config_.checkpoint.every = config_.validation.every = config_.validation.bleu_every = "40u";
  Collector records;
  train(records);
  ASSERT_EQ(records.steps.size(), 201U);
  ASSERT_GE(records.evaluations.size(), 5U);
  for (std::size_t i = 0; i < memory_purposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    const std::string name(name_of(purpose));
    EXPECT_EQ(records.steps[199].memory_bytes.at(name), records.steps[79].memory_bytes.at(name)) << name;
  }
}

TEST_F(TranslationValidatorTest, ASampleOfTheTrainingSetIsEvaluatedBesideWithoutChangingTheRun) {
  config_.training.stop_after = "4u";
  config_.validation.every = "2u";
  config_.validation.bleu_every = "4u";
  Collector without, with;
  train(without);
  std::filesystem::remove_all(folder_ / "checkpoints");
  config_.validation.train_sample = 7;
  train(with);
  ASSERT_EQ(without.evaluations.size(), 2U);
  ASSERT_EQ(with.evaluations.size(), 4U);
  for (std::size_t i = 0; i < 4; i += 2) {
    const EvalRecord &valid = with.evaluations[i], &sample = with.evaluations[i + 1];
    EXPECT_EQ(valid.set, "valid");
    EXPECT_EQ(valid.loss, without.evaluations[i / 2].loss);
    EXPECT_EQ(sample.set, "train");
    EXPECT_EQ(sample.update, valid.update);
    EXPECT_GT(sample.nll, 0);
    EXPECT_NE(sample.nll, valid.nll);
    EXPECT_FALSE(sample.best);
    EXPECT_TRUE(std::isnan(sample.sacrebleu)) << "no sample is translated";
  }
  EXPECT_EQ(with.steps.back().weights_digest, without.steps.back().weights_digest);
  EXPECT_EQ(with.checkpoints.back().loss, without.checkpoints.back().loss);
}

TEST_F(TranslationValidatorTest, OtherSetsAreScoredBesideWithoutChangingTheRun) {
  config_.training.stop_after = "4u";
  config_.validation.every = "2u";
  config_.validation.bleu_every = "4u";
  config_.checkpoint.every = "2u";
  Collector without, with, resumed;
  train(without);
  std::filesystem::remove_all(folder_ / "checkpoints");
  config_.validation.other_sets = {"general=" + config_.data.folder + ":test"};
  train(with);
  ASSERT_EQ(without.evaluations.size(), 2U);
  ASSERT_EQ(with.evaluations.size(), 4U);
  for (std::size_t i = 0; i < 4; i += 2) {
    const EvalRecord &valid = with.evaluations[i], &general = with.evaluations[i + 1];
    EXPECT_EQ(valid.set, "valid");
    EXPECT_EQ(valid.loss, without.evaluations[i / 2].loss);
    EXPECT_EQ(valid.scoring, without.evaluations[i / 2].scoring);
    EXPECT_EQ(valid.best, without.evaluations[i / 2].best);
    EXPECT_EQ(general.set, "general");
    EXPECT_EQ(general.update, valid.update);
    EXPECT_NE(general.nll, valid.nll);
    EXPECT_FALSE(general.best) << "the validation set alone decides";
    EXPECT_NE(general.set_digest, valid.set_digest);
    EXPECT_NE(general.scoring, valid.scoring);
    EXPECT_EQ(std::isfinite(general.sacrebleu), i == 2) << "translated with the validation set";
    EXPECT_EQ(general.samples.size(), i == 2 ? static_cast<std::size_t>(held_out_count) : 0U);
  }
  EXPECT_EQ(with.steps.back().weights_digest, without.steps.back().weights_digest);
  std::filesystem::remove_all(folder_ / "checkpoints" / "update-00000004");
  train(resumed);
  ASSERT_EQ(resumed.evaluations.size(), 2U);
  EXPECT_EQ(resumed.evaluations[1].loss, with.evaluations[3].loss);
  EXPECT_EQ(resumed.evaluations[1].sacrebleu, with.evaluations[3].sacrebleu);
  EXPECT_EQ(resumed.steps.back().weights_digest, with.steps.back().weights_digest);
  config_.data.valid_set = "test";
  config_.validation.other_sets.clear();
  std::filesystem::remove_all(folder_ / "checkpoints");
  Collector alone;
  train(alone);
  EXPECT_EQ(alone.evaluations[1].loss, with.evaluations[3].loss) << "the same numbers as if it decided";
  EXPECT_EQ(alone.evaluations[1].set_digest, with.evaluations[3].set_digest);
}

TEST_F(TranslationValidatorTest, OtherSetsNeedTheVocabularyOfTheRun) {
  PrepareOptions options;
  options.train = {{folder_.write("other.a", made_up_text("three", 0, 60)), folder_ / "train.b"}};
  options.valid = TextFiles{folder_ / "valid.a", folder_ / "valid.b"};
  options.output = folder_ / "other";
  options.vocabulary = {.size = 55};
  prepare(options);
  const std::string other = folder_ / "other", own = config_.data.folder;
  const auto refusal = [&](const std::string& set) -> std::string {
    config_.validation.other_sets = {set};
    try {
      check_task_data(config_);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("general=" + own + ":test"), "");
  EXPECT_THAT(refusal("general=" + other),
              ::testing::MatchesRegex("validation.other_sets: general: .*/other was prepared with the vocabulary "
                                      "[0-9a-f]+, data.folder .*/data with [0-9a-f]+; run `nmt prepare --vocabulary "
                                      ".*/data/spm.model` for it"));
  EXPECT_THAT(refusal("general=" + own + ":dev"), ::testing::HasSubstr("no set 'dev', only train, valid, test"));
  EXPECT_THAT(refusal("general=" + own + "/none"), ::testing::HasSubstr("no manifest.json there"));
  const std::filesystem::path text = folder_ / "copy" / load_manifest(own).set("test").target_text->name;
  std::filesystem::copy(own, folder_ / "copy");
  std::filesystem::resize_file(text, 10);
  EXPECT_THAT(refusal("general=" + (folder_ / "copy").string() + ":test"),
              ::testing::HasSubstr("truncated or damaged"));
  std::string content = read_file(std::filesystem::path(own) / text.filename());
  content.front() = 'x';
  write_file_atomically(text, content);
  EXPECT_EQ(refusal("general=" + (folder_ / "copy").string() + ":test"), "") << "digests are compared while it trains";
  const auto check = make_data_check(config_);
  check->start();
  while (!check->ended_within(std::chrono::milliseconds(100))) continue;
  EXPECT_THAT(check->result().error(), ::testing::HasSubstr(text.string() + ": damaged, its SHA-256 is "));
}

TEST_F(TranslationValidatorTest, TheSampleIsSpreadOverTheSentencesThatAreTrainedOn) {
  const Corpus corpus = Corpus::open(config_.data.folder, "train");
  config_.validation.train_sample = 1000;
  const EvaluatedSet all = sample_training_set(config_, *vocabulary_);
  EXPECT_EQ(all.corpus.sentences(), corpus.sentences()) << "no more than there are";
  EXPECT_EQ(all.text.target.size(), static_cast<std::size_t>(corpus.sentences()));
  config_.validation.train_sample = 2;
  const EvaluatedSet two = sample_training_set(config_, *vocabulary_);
  ASSERT_EQ(two.corpus.sentences(), 2);
  const std::int64_t middle = corpus.sentences() / 2;
  EXPECT_TRUE(std::ranges::equal(two.corpus.target(1), corpus.target(middle)));
  EXPECT_EQ(two.text.target[1], vocabulary_->decode(corpus.target(middle)));
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < corpus.sentences(); ++i) {
    longest = std::max({longest, corpus.source_length(i), corpus.target_length(i)});
  }
  config_.validation.train_sample = 1000;
  config_.data.max_length = static_cast<int>(longest);  // with </s>, the longest has one more
  EXPECT_LT(sample_training_set(config_, *vocabulary_).corpus.sentences(), corpus.sentences());
}

TEST_F(TranslationValidatorTest, TheLastCheckpointHasTheLastScores) {
  config_.training.stop_after = "4u";
  config_.checkpoint.every = "2u";
  config_.validation.every = config_.validation.bleu_every = "0u";
  Collector records;
  train(records);
  ASSERT_EQ(records.checkpoints.size(), 2U);
  EXPECT_TRUE(std::isnan(records.checkpoints[0].loss));
  EXPECT_EQ(records.checkpoints[1].update, 4);
  EXPECT_GT(records.checkpoints[1].loss, 0);
  EXPECT_TRUE(records.checkpoints[1].best);
}

TEST_F(TranslationValidatorTest, ChangesOfTheDataFolderDoNotAffectTheRun) {
  config_.training.stop_after = "4u";
  config_.checkpoint.every = "2u";
  config_.validation.every = config_.validation.bleu_every = "2u";
  const std::string vocabulary = read_file(folder_ / "data/spm.model");
  Collector undisturbed;
  train(undisturbed);
  const auto prepare_again = [&] {
    PrepareOptions other;
    other.train = {{folder_.write("other.a", made_up_text("uno", 100, 90)),
                    folder_.write("other.b", made_up_text("due", 100, 90))}};
    other.valid = TextFiles{folder_.write("held.a", made_up_text("uno", 300, 5)),
                            folder_.write("held.b", made_up_text("due", 300, 5))};
    other.output = folder_ / "data";
    other.vocabulary = {.size = 60};
    prepare(other);
    ASSERT_NE(read_file(folder_ / "data/spm.model"), vocabulary);
  };
  const auto remove_folder = [&] { std::filesystem::remove_all(folder_ / "data"); };
  for (const std::function<void()>& meanwhile :
       {std::function<void()>(prepare_again), std::function<void()>(remove_folder)}) {
    std::filesystem::remove_all(folder_ / "checkpoints");
    std::filesystem::copy(folder_ / "data", folder_ / "before");
    Collector records;
    train(records, meanwhile);
    ASSERT_EQ(records.steps.size(), undisturbed.steps.size());
    for (std::size_t i = 0; i < records.steps.size(); ++i) {
      EXPECT_EQ(records.steps[i].weights_digest, undisturbed.steps[i].weights_digest);
    }
    ASSERT_EQ(records.checkpoints.size(), undisturbed.checkpoints.size());
    for (const CheckpointRecord& checkpoint : records.checkpoints) {
      EXPECT_EQ(read_file(std::filesystem::path(checkpoint.folder) / "spm.model"), vocabulary);
    }
    EXPECT_EQ(records.checkpoints.back().loss, undisturbed.checkpoints.back().loss);
    EXPECT_EQ(records.checkpoints.back().sacrebleu, undisturbed.checkpoints.back().sacrebleu);
    std::filesystem::remove_all(folder_ / "data");
    std::filesystem::rename(folder_ / "before", folder_ / "data");
  }
}

TEST_F(TranslationValidatorTest, ANonFiniteEvaluationEndsTheRun) {
  config_.training.stop_after = "9u";
  config_.validation.every = config_.validation.bleu_every = "2u";
  WeightKiller records({6});
  EXPECT_THAT([&] { train(records); },
              ::testing::ThrowsMessage<Diverged>(
                  ::testing::AllOf(::testing::StartsWith("training diverged at update 6: the loss on valid is "),
                                   ::testing::HasSubstr("nan; the last finite values were loss "),
                                   ::testing::HasSubstr(" at update 6; try a lower optimizer.learning_rate"))));
  ASSERT_EQ(records.evaluations.size(), 3U);
  EXPECT_TRUE(std::isnan(records.evaluations[2].loss));
  EXPECT_FALSE(records.evaluations[2].best);
  for (const CheckpointRecord& checkpoint : records.checkpoints) EXPECT_LT(checkpoint.update, 6);

  std::filesystem::remove_all(folder_ / "checkpoints");
  config_.training.divergence.after = "0u";
  WeightKiller to_the_end({6});
  EXPECT_THAT([&] { train(to_the_end); }, ::testing::ThrowsMessage<Failure>(::testing::AllOf(
                                              ::testing::StartsWith("checkpoint of update 9 was not written"),
                                              ::testing::HasSubstr("weights are not finite: "))));
  EXPECT_EQ(to_the_end.steps.size(), 9U);
  for (const EvalRecord& evaluation : to_the_end.evaluations) {
    EXPECT_FALSE(evaluation.best && !std::isfinite(evaluation.loss)) << evaluation.update;
  }
}

TEST_F(TranslationValidatorTest, ARewindPrefersEvaluatedCheckpoints) {
  config_.training.stop_after = "14u";
  config_.training.divergence = {.after = "2u", .rewind = 1};
  config_.checkpoint.every = "3u";
  config_.validation.every = "5u";
  config_.validation.bleu_every = "0u";
  WeightKiller records({8});
  train(records);
  ASSERT_EQ(records.lifecycle.size(), 1U);
  EXPECT_EQ(records.lifecycle[0].event, "rewound");
  EXPECT_EQ(records.lifecycle[0].update, 5) << "6 was not evaluated";
  EXPECT_THAT(records.lifecycle[0].detail, ::testing::HasSubstr("training diverged at update 10: "));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "checkpoints/aside/update-00000006"));
  EXPECT_EQ(records.steps.back().update, 14);
  EXPECT_FALSE(records.steps.back().skipped);
  EXPECT_TRUE(load_checkpoint(folder_ / "checkpoints/update-00000014").ok());
  std::vector<std::int64_t> evaluated;
  for (const EvalRecord& evaluation : records.evaluations) evaluated.push_back(evaluation.update);
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{5, 10, 14})) << "dead weights are not evaluated";
}

TEST_F(TranslationValidatorTest, ARewindSkipsALossFarAboveTheLowest) {
  config_.training.stop_after = "14u";
  config_.training.divergence = {.after = "2u", .rewind = 1};
  config_.validation.every = config_.checkpoint.every = "3u";
  config_.validation.bleu_every = "0u";
  WeightKiller records({10}, {7});
  train(records);
  ASSERT_GE(records.evaluations.size(), 3U);
  EXPECT_EQ(records.evaluations[2].update, 9);
  EXPECT_GT(records.evaluations[2].loss, records.evaluations[1].loss + 1);
  ASSERT_EQ(records.lifecycle.size(), 1U);
  EXPECT_EQ(records.lifecycle[0].update, 6) << "the loss of 9 is finite, but far above that of 6";
}

TEST_F(TranslationValidatorTest, ChoosesTheTokenizerByTheReferences) {
  const auto backend = make_cpu_backend(1);
  const auto communicator = make_single_communicator();
  ActivationArenas arenas(*backend);
  const auto validator = [&](const char* reference) {
    EvaluatedSet set = open_held_out_pairs({"valid", config_.data.folder}, *vocabulary_);
    if (reference != nullptr) std::ranges::fill(set.text.target, reference);
    return TranslationValidator(config_, *vocabulary_,
                                {.backend = *backend, .communicator = *communicator, .arenas = arenas}, std::move(set));
  };
  const auto model = this->model(*backend);
  EXPECT_THAT(validator(nullptr).run(*model, true).signature, ::testing::HasSubstr("|tok:13a|"));
  EXPECT_THAT(validator("我们走吧。").run(*model, true).signature, ::testing::HasSubstr("|tok:zh|"));
  const json::object chinese = validator("我们走吧。").scoring(config_), other = validator("他来。").scoring(config_);
  EXPECT_EQ(chinese.at("tokenizer").as_string(), "zh");
  EXPECT_EQ(chinese.at("metric").as_string(), "sacrebleu");
  EXPECT_NE(chinese.at("digest"), other.at("digest"));
  config_.validation.tokenizer = Tokenizer::intl;
  EXPECT_THAT(validator("我们走吧。").run(*model, true).signature, ::testing::HasSubstr("|tok:intl|"));
}

/// A better score on another set, or by another measure, must not keep a worse one from being the best.
TEST_F(TranslationValidatorTest, BestAndPatienceBeginAnewIfScoresMeanSomethingElse) {
  config_.validation.every = "2u";
  config_.validation.bleu_every = "0u";
  const auto train_to = [&](const char* end) {
    config_.training.stop_after = end;
    Collector records;
    const LogCapture log;
    train(records);
    for (const EvalRecord& evaluation : records.evaluations) evaluations_.push_back(evaluation);
    return log.text();
  };
  train_to("20u");
  EXPECT_THAT(train_to("22u"), ::testing::Not(::testing::HasSubstr("anew")));
  const double easy = evaluations_.back().loss;
  config_.data.valid_set = "test";
  EXPECT_THAT(train_to("24u"), ::testing::ContainsRegex("set valid → test.*validation set [0-9a-f]{12} → [0-9a-f]{12}.*"
                                                        "the best evaluation and validation.patience begin anew"));
  EXPECT_GT(evaluations_.back().loss, easy);
  EXPECT_TRUE(evaluations_.back().best);
  EXPECT_EQ(best_checkpoint_name(folder_ / "checkpoints"), "update-00000024");
  config_.validation.bleu_every = "2u";
  EXPECT_THAT(train_to("26u"), ::testing::HasSubstr("metric loss → sacrebleu"));
  EXPECT_TRUE(evaluations_.back().best);
  config_.validation.precision = ValidationPrecision::int8;
  EXPECT_THAT(train_to("28u"), ::testing::ContainsRegex("precision .*→ int8.*begin anew"));
  EXPECT_TRUE(evaluations_.back().best);
}

TEST_F(TranslationValidatorTest, AnOlderCheckpointHasTheScoresOfItsConfiguration) {
  config_.validation.every = config_.validation.bleu_every = "2u";
  const auto resumed = [&] {
    std::filesystem::remove_all(folder_ / "checkpoints");
    const auto backend = make_cpu_backend(1);
    const auto communicator = make_single_communicator();
    Collector records;
    const TrainingState old{.progress = {.update = 2, .epoch = 0.1},
                            .best_score = 99,
                            .corpus_digest = Corpus::open(config_.data.folder, "train").digest()};
    TrainConfig then = config_;
    then.validation.beam = 4;
    Checkpointer keeper(then, folder_ / "checkpoints", vocabulary_->bytes(), *backend, *communicator, records);
    const ModelReplica replica(then, vocabulary_->size(), *backend, *communicator);
    EXPECT_TRUE(keeper.save(replica, old, {}).ok());
    config_.training.stop_after = "4u";
    train(records);
    return records.evaluations.back().best;
  };
  EXPECT_FALSE(resumed()) << "99 is better";
  config_.validation.beam = 2;
  EXPECT_TRUE(resumed());
}

TEST_F(TranslationValidatorTest, AnotherVocabularyIsRejected) {
  const Vocabulary own = *vocabulary_;
  PrepareOptions other;
  other.train = {{folder_ / "train.a", folder_ / "train.b"}};
  other.valid = TextFiles{folder_ / "valid.a", folder_ / "valid.b"};
  other.output = folder_ / "data";
  other.vocabulary = {.size = 61};
  prepare(other);
  EXPECT_THAT([&] { validate(*make_single_communicator()); },
              ::testing::ThrowsMessage<Failure>(::testing::HasSubstr("prepared with the vocabulary ")));
}

TEST_F(TranslationValidatorTest, SeveralRanksGiveTheScoresOfOne) {
  learn();
  const EvalRecord one = validate(*make_single_communicator(), true);
  EXPECT_FALSE(std::isnan(one.sacrebleu));
  for (const int ranks : {2, 3}) {
    ThreadGroup group(ranks);
    std::vector<EvalRecord> records(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] { records[static_cast<std::size_t>(rank)] = validate(*group.rank(rank), true); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const EvalRecord& record : records) {
      EXPECT_EQ(record.teacher_forced_bleu, one.teacher_forced_bleu);
      EXPECT_EQ(record.sacrebleu, one.sacrebleu);
      EXPECT_NEAR(record.loss, one.loss, 1e-5);
      EXPECT_EQ(record.accuracy, one.accuracy);
      EXPECT_EQ(record.samples.size(), one.samples.size());
    }
  }
}

}  // namespace
}  // namespace babelring

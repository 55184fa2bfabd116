#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "nmt/train/trainer.h"
#include "tests/nmt/comm/fake_nccl.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/train_ranks.h"

namespace babelring {
namespace {

TEST(Trainer, OneTwoAndFourRanksSeeTheSameLosses) {
  TrainConfig config = small_config();
  config.training.stop_after = "50u";
  config.model.attention_dropout = config.model.activation_dropout = 0.1;
  const std::vector<StepRecord> one = train_steps(config, 1);
  ASSERT_EQ(one.size(), 50U);
  for (const int ranks : {2, 4}) {
    const std::vector<StepRecord> many = train_steps(config, ranks);
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(many[i].loss, one[i].loss, 2e-4 * one[i].loss) << ranks << " ranks, update " << i + 1;
      EXPECT_NEAR(many[i].gradient_norm, one[i].gradient_norm, 1e-2 * one[i].gradient_norm);
      EXPECT_EQ(many[i].update_target_tokens, one[i].update_target_tokens);
    }
  }
}

/// The collectives of threads add in the order of ranks, which is a tree for two ranks and in shared memory.
class TrainerByUnits : public testing::TestWithParam<const char*> {
 protected:
  static TrainConfig config() {
    TrainConfig config = small_config();
    config.training.stop_after = "3u";
    config.training.reproducible = Reproducible::ranks;
    config.training.freeze = "*norm*";
    config.model.attention_dropout = config.model.activation_dropout = 0.1;
    config.data.micro_batch_tokens = 16;
    config.communication.all_reduce = AllReduceAlgorithm::ring;  // for make_gradient_comm(): not NCCL
    if (std::string(GetParam()) == "emulated") {                 // slow
      config.training.stop_after = "1u";
      config.training.units = 4;
      config.data.tokens_per_update = 60;
      config.model.encoder_layers = config.model.decoder_layers = 1;
    }
    return config;
  }
};

TEST_P(TrainerByUnits, GivesTheSameBitsForEveryNumberOfRanks) {
  FakeNccl::reset();
  TrainConfig config = TrainerByUnits::config();
  config.training.guided_alignment = 0.2;
  const std::string device = GetParam();
  const std::vector<StepRecord> one = train_steps(config, 1, {}, false, device);
  ASSERT_GE(one.size(), 1U);
  EXPECT_GT(one[0].gradient_norm, 0);
  EXPECT_GT(one[0].alignment_loss, 0);
  expect_same_updates(train_steps(config, 2, {}, false, device), one);
  if (device != "cpu") return;
  for (const int ranks : {2, 4, 8}) expect_same_updates(train_steps(config, ranks, {}, true), one);
}
TEST_P(TrainerByUnits, RegularisersGiveTheSameBitsForEveryNumberOfRanks) {
  FakeNccl::reset();
  TrainConfig config = TrainerByUnits::config();
  config.training.ema = 0.9;
  config.training.r_drop = 2;
  config.training.layer_drop = 0.3;
  config.training.source_word_dropout = config.training.target_word_dropout = 0.2;
  const std::string device = GetParam();
  const std::vector<StepRecord> one = train_steps(config, 1, {}, false, device);
  ASSERT_GE(one.size(), 1U);
  EXPECT_GT(one[0].r_drop_loss, 0);
  expect_same_updates(train_steps(config, 2, {}, false, device), one);
  if (device != "cpu") return;
  for (const int ranks : {2, 4}) expect_same_updates(train_steps(config, ranks, {}, true), one);
}

TEST_P(TrainerByUnits, AModernModelGivesTheSameBitsForEveryNumberOfRanks) {
  FakeNccl::reset();
  TrainConfig config = TrainerByUnits::config();
  config.model = with_modern_layers(config.model);
  const std::string device = GetParam();
  const std::vector<StepRecord> one = train_steps(config, 1, {}, false, device);
  ASSERT_GE(one.size(), 1U);
  expect_same_updates(train_steps(config, 2, {}, false, device), one);
  if (device != "cpu") return;
  for (const int ranks : {2, 4}) expect_same_updates(train_steps(config, ranks, {}, true), one);
}

INSTANTIATE_TEST_SUITE_P(Devices, TrainerByUnits, testing::Values("cpu", "closed", "emulated"),
                         [](const auto& parameter) { return std::string(parameter.param); });

/// Trains on a backend whose memory the host cannot access, with gradients reduced through host memory or by NCCL
/// during backward. Covers validation, checkpoints, resuming, one rank, and two ranks that could share host memory.
class TrainerOnDevice : public testing::TestWithParam<AllReduceAlgorithm> {};

TEST_P(TrainerOnDevice, GivesTheSameBitsAsHostMemory) {
  FakeNccl::reset();
  TrainConfig config = small_config();
  config.training.digest_every = "1u";
  for (const auto& [ranks, modern] : {std::pair{1, false}, {2, false}, {2, true}}) {
    if (modern) config.model = with_modern_layers(config.model);
    config.communication.all_reduce = AllReduceAlgorithm::automatic;
    config.training.stop_after = "6u";
    const std::vector<StepRecord> expected = train_steps(config, ranks);
    const TemporaryFolder folder;
    config.training.stop_after = "4u";
    config.communication.all_reduce = GetParam();
    std::vector<StepRecord> found = train_steps(config, ranks, folder.path(), true, "closed");
    config.training.stop_after = "6u";
    for (StepRecord& record : train_steps(config, ranks, folder.path(), true, "closed"))
      found.push_back(std::move(record));
    ASSERT_EQ(found.size(), expected.size()) << ranks;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].loss, expected[i].loss) << ranks << " ranks, update " << i + 1;
      EXPECT_EQ(found[i].weights_digest, expected[i].weights_digest) << ranks << " ranks, update " << i + 1;
    }
  }
  const bool by_nccl = GetParam() == AllReduceAlgorithm::nccl;
  EXPECT_EQ(FakeNccl::calls(1).size() > 6 * 3, by_nccl) << "several buckets in each update";
}

INSTANTIATE_TEST_SUITE_P(Transports, TrainerOnDevice,
                         testing::Values(AllReduceAlgorithm::ring, AllReduceAlgorithm::nccl));

/// For a table shared by embeddings and output projection, GPUs reduce the projection's gradient first and the rows in
/// use last. All ranks get equal weights, which differ from those of a single all-reduce by rounding only.
TEST(Trainer, GpusReduceTheSharedTableFirstAndItsUsedRowsLast) {
  constexpr int vocabulary = 400;  // the sentences use `pieces` of it
  constexpr std::size_t table = vocabulary * 32, max_rows = pieces * 32;
  TrainConfig config = small_config();
  config.training.stop_after = "6u";
  for (const auto& [ranks, tokens, micro_batch] : {std::tuple{2, 200, 0}, {2, 200, 40}, {3, 15, 0}}) {
    SCOPED_TRACE(fmt::format("{} ranks, {} tokens, micro-batches of {}", ranks, tokens, micro_batch));
    config.data.tokens_per_update = tokens;  // 15: less than one sentence per rank
    config.data.micro_batch_tokens = micro_batch;
    config.training.r_drop = micro_batch > 0 ? 1 : 0;
    config.communication.all_reduce = AllReduceAlgorithm::ring;
    const std::vector<Collector> whole = train_all_ranks(config, ranks, {}, false, "closed", vocabulary);
    config.communication.all_reduce = AllReduceAlgorithm::nccl;
    FakeNccl::reset();
    const std::vector<Collector> apart = train_all_ranks(config, ranks, {}, false, "closed", vocabulary);
    const std::vector<FakeNccl::Call> calls = FakeNccl::calls(1);
    const std::vector<Collector> again = train_all_ranks(config, ranks, {}, false, "closed", vocabulary);
    ASSERT_EQ(apart[0].steps.size(), 6U);
    for (std::size_t i = 0; i < apart[0].steps.size(); ++i) {
      const StepRecord& step = apart[0].steps[i];
      EXPECT_NEAR(step.loss, whole[0].steps[i].loss, 1e-4 * step.loss) << i;
      EXPECT_NEAR(step.gradient_norm, whole[0].steps[i].gradient_norm, 1e-3 * step.gradient_norm) << i;
      EXPECT_EQ(step.weights_digest, again[0].steps[i].weights_digest) << i;
      EXPECT_EQ(step.weights_digest, apart[1].steps[i].weights_digest) << i;
    }
    const std::size_t of_update = (calls.size() - 1) / 6;  // behind the trial
    ASSERT_EQ(calls.size(), 1 + 6 * of_update);
    for (std::size_t i = 1; i < calls.size(); i += of_update) {
      EXPECT_EQ(calls[i].count, table);
      EXPECT_LE(calls[i + of_update - 1].count, max_rows);
    }
  }
}

/// A frozen table has no gradient. A table with nearly all ids in use is reduced as a whole.
TEST(Trainer, GpusReduceAWholeTableIfItsRowsSaveNothing) {
  TrainConfig config = small_config();
  config.training.stop_after = "2u";
  config.communication.all_reduce = AllReduceAlgorithm::nccl;
  const auto tables_reduced = [&](const std::string& freeze, int vocabulary) {
    FakeNccl::reset();
    config.training.freeze = freeze;
    train_all_ranks(config, 2, {}, false, "closed", vocabulary);
    const std::vector<FakeNccl::Call> calls = FakeNccl::calls(1);
    EXPECT_EQ(calls.back().count, static_cast<std::size_t>(vocabulary) * 32);
    EXPECT_EQ((calls.size() - 1) % 2, 0U);
  };
  tables_reduced("embedding", 400);
  tables_reduced("", pieces + 4);
}

TEST(Trainer, MicroBatchesDoNotChangeTheUpdate) {
  TrainConfig config = small_config();
  config.training.stop_after = "20u";
  const std::vector<StepRecord> whole = train_steps(config, 1);
  config.data.micro_batch_tokens = 64;
  const std::vector<StepRecord> parts = train_steps(config, 2);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i].loss, whole[i].loss, 2e-4 * whole[i].loss);
}

/// The model is wide enough to give every rank a shard.
TEST(Trainer, RanksWithASharedCopyGiveTheSameBits) {
  TrainConfig config = small_config();
  config.training.stop_after = "12u";
  config.model.width = 64;
  config.model.inner = 256;
  config.optimizer.adam.clip_norm = 0.5;
  for (const int ranks : {2, 4}) {
    for (const DType precision : {DType::f32, DType::bf16}) {
      config.training.precision = precision;
      const std::vector<StepRecord> copies = train_steps(config, ranks);
      const std::vector<StepRecord> shared = train_steps(config, ranks, {}, true);
      ASSERT_EQ(shared.size(), 12U);
      for (std::size_t i = 0; i < shared.size(); ++i) {
        EXPECT_EQ(shared[i].weights_digest, copies[i].weights_digest) << ranks << " ranks, update " << i + 1;
        EXPECT_EQ(shared[i].gradient_norm, copies[i].gradient_norm);
      }
      EXPECT_GT(copies[0].gradient_norm, 0.5);
    }
  }
}

TEST(Trainer, SharedAndSeparateCopiesResumeFromEachOther) {
  TrainConfig config = small_config();
  config.model.width = 64;
  config.training.stop_after = "20u";
  const std::vector<StepRecord> whole = train_steps(config, 2);
  for (const bool shared_first : {true, false}) {
    const TemporaryFolder folder;
    config.training.stop_after = "9u";
    train_steps(config, 2, folder.path(), shared_first);
    config.training.stop_after = "20u";
    const std::vector<StepRecord> rest = train_steps(config, 2, folder.path(), !shared_first);
    ASSERT_EQ(rest.size(), 11U);
    for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].weights_digest, whole[i + 9].weights_digest);
  }
}

TEST(Trainer, HostsWithACopyEachGiveTheSameBitsAndResume) {
  TrainConfig config = small_config();
  config.model.width = 64;
  config.model.inner = 256;
  for (const DType precision : {DType::f32, DType::bf16}) {
    config.training.precision = precision;
    config.training.stop_after = "6u";
    const std::vector<StepRecord> copies = train_steps(config, 4);
    const TemporaryFolder folder;
    for (const auto& [first, end, stop_after] : {std::tuple{0U, 4U, "4u"}, std::tuple{4U, 6U, "6u"}}) {
      config.training.stop_after = stop_after;
      for (const Collector& rank : train_all_ranks(config, 4, folder.path(), true, "cpu", pieces, 2)) {
        ASSERT_EQ(rank.steps.size(), end - first);
        for (std::size_t i = first; i < end; ++i) {
          EXPECT_EQ(rank.steps[i - first].weights_digest, copies[i].weights_digest) << "update " << i + 1;
          EXPECT_EQ(rank.steps[i - first].gradient_norm, copies[i].gradient_norm);
        }
      }
    }
  }
}

}  // namespace
}  // namespace babelring

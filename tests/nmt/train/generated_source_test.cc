#include <gtest/gtest.h>

#include <thread>

#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/trained_rank.h"

/// Training of a model and from a source other than those of translation: a language model on sequences made on the
/// fly.
namespace babelring {
namespace {

/// Sequences that count upwards modulo `pieces`, from a beginning that follows from the number of the update.
class Counting : public UpdateSource {
 public:
  UpdateBatches make(std::int64_t update, const DataPosition&, const RankPart& part) const override {
    UpdateBatches batches{.update = update,
                          .epoch = 0,
                          .global_sentences = sequences,
                          .global_target_tokens = sequences * length,
                          .sentences = 0};
    PackedBatch batch;
    const std::int64_t first = sequences * part.rank / part.world, last = sequences * (part.rank + 1) / part.world;
    batch.first_target_row = first * length;
    for (std::int64_t sequence = first; sequence < last; ++sequence) {
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t token = update * 7 + sequence * 3 + i;
        batch.target_in.ids.push_back(static_cast<std::int32_t>(token % pieces));
        batch.target_out.push_back(static_cast<std::int32_t>((token + 1) % pieces));
      }
      batch.source.offsets.push_back(0);
      batch.target_in.offsets.push_back(static_cast<std::int32_t>(batch.target_in.ids.size()));
    }
    batches.sentences = last - first;
    batches.target_tokens = batch.target_in.tokens();
    batches.micro_batches.push_back(std::move(batch));
    return batches;
  }
  DataPosition after(const DataPosition&) const override { return {}; }
  DataPosition resume(DataOrder, const std::optional<DataPosition>&, double) override { return {}; }
  std::int64_t updates_per_epoch() const override { return 0; }
  UpdateShape shape() const override {
    return {.max_length = length, .source_tokens = 0, .target_tokens = sequences * length};
  }
  const std::string& digest() const override { return digest_; }

 private:
  static constexpr std::int64_t sequences = 8, length = 6;
  const std::string digest_ = "counting";
};

TrainConfig counting_config() {
  TrainConfig config = small_config();
  config.model.encoder_layers = 0;
  config.optimizer.schedule.learning_rate = 0.01;
  config.data.micro_batch_tokens = DataConfig::automatic;
  config.data.valid_set.clear();
  return config;
}

/// Trains one rank until `stop_after`, with checkpoints in `folder` unless it is empty. Returns its step records.
std::vector<StepRecord> train_counting(TrainConfig config, const char* stop_after, Communicator& communicator,
                                       const std::filesystem::path& folder = {}) {
  config.training.stop_after = stop_after;
  const auto backend = make_cpu_backend(1);
  const StopRequest stop;
  Collector records;
  Counting source;
  run_rank({.config = config,
            .backend = *backend,
            .communicator = communicator,
            .source = source,
            .records = records,
            .folder = folder,
            .stop = stop});
  return records.steps;
}

TEST(GeneratedSource, TeachesALanguageModelOnAnyNumberOfRanks) {
  const std::vector<StepRecord> one = train_counting(counting_config(), "80u", *make_single_communicator());
  EXPECT_LT(one.back().nll, 0.2 * one.front().nll);
  ThreadGroup group(2);
  std::vector<std::vector<StepRecord>> two(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      two[static_cast<std::size_t>(rank)] = train_counting(counting_config(), "80u", *group.rank(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(two[0].size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(two[0][i].target_tokens + two[1][i].target_tokens, one[i].target_tokens);
    EXPECT_NEAR(two[0][i].loss, one[i].loss, 1e-3 * one[i].loss) << "update " << i + 1;
  }
}

TEST(GeneratedSource, AResumedRunHasTheBitsOfAnUninterruptedOne) {
  const auto alone = make_single_communicator();
  const std::vector<StepRecord> whole = train_counting(counting_config(), "12u", *alone);
  const TemporaryFolder folder;
  train_counting(counting_config(), "5u", *alone, folder.path());
  const std::vector<StepRecord> rest = train_counting(counting_config(), "12u", *alone, folder.path());
  ASSERT_EQ(rest.size(), 7U);
  EXPECT_EQ(rest.back().weights_digest, whole.back().weights_digest);
}

}  // namespace
}  // namespace babelring

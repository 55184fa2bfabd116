#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/names.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/train_ranks.h"
#include "tests/soon.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Runs `work` on the ranks of several hosts, each a thread.
template <class Work>
void on_ranks(int ranks, int hosts, Work work) {
  ThreadGroup group(ranks, false, hosts);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { work(*group.rank(rank)); });
  }
  for (std::thread& thread : threads) thread.join();
}

TrainConfig sharded_config(const char* stop_after) {
  TrainConfig config = small_config();
  config.training.stop_after = stop_after;
  config.checkpoint.every = "2u";
  config.checkpoint.sharded = true;
  return config;
}

std::vector<StepRecord> train_on_hosts(int hosts, const TrainConfig& config, const fs::path& folder,
                                       bool shares = false) {
  return train_all_ranks(config, 4, folder, shares, "cpu", pieces, hosts)[0].steps;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void expect_same_tensors(const TensorFiles& found, const TensorFiles& expected) {
  ASSERT_EQ(found.names().size(), expected.names().size());
  for (const std::string& name : expected.names()) {
    const ConstTensor a = found.tensor(name), b = expected.tensor(name);
    ASSERT_EQ(a.shape, b.shape) << name;
    EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes()), 0) << name;
  }
}

TEST(ShardedSave, HasTheBitsOfAWholeCheckpoint) {
  for (const int hosts : {2, 4}) {
    for (const bool shares : {false, true}) {
      const TemporaryFolder sharded, whole;
      TrainConfig config = sharded_config("4u");
      train_on_hosts(hosts, config, sharded.path(), shares);
      config.checkpoint.sharded = false;
      train_on_hosts(hosts, config, whole.path(), shares);
      const Checkpoint found = load_checkpoint(sharded / "update-00000004").value();
      const Checkpoint expected = load_checkpoint(whole / "update-00000004").value();
      EXPECT_EQ(found.weights().files().size(), static_cast<std::size_t>(hosts));
      EXPECT_EQ(expected.weights().files().size(), 1U);
      EXPECT_EQ(found.weights_digest, expected.weights_digest);
      EXPECT_EQ(found.weights().names(), expected.weights().names());
      expect_same_tensors(found.weights(), expected.weights());
      expect_same_tensors(found.optimizer(), expected.optimizer());
    }
  }
}

TEST(ShardedSave, TheShardsAreAboutEquallyLarge) {
  const TemporaryFolder folder;
  train_on_hosts(4, sharded_config("2u"), folder.path());
  const fs::path saved = folder / "update-00000002";
  std::uintmax_t all = 0, largest = 0;
  for (int shard = 0; shard < 4; ++shard) {
    const std::uintmax_t bytes = fs::file_size(saved / tensor_file_name(weight_tensors, shard, 4));
    all += bytes;
    largest = std::max(largest, bytes);
  }
  EXPECT_LT(largest, all / 2);
}

TEST(ShardedSave, RunsGoOnWithAnyNumberOfHosts) {
  const std::vector<StepRecord> straight = train_on_hosts(1, sharded_config("9u"), {});
  const TemporaryFolder folder;
  std::vector<StepRecord> found;
  const auto go_on = [&](int hosts, const char* end, bool sharded) {
    TrainConfig config = sharded_config(end);
    config.checkpoint.sharded = sharded;
    for (StepRecord& step : train_on_hosts(hosts, config, folder.path())) found.push_back(std::move(step));
  };
  go_on(2, "3u", true);
  go_on(4, "5u", true);
  go_on(1, "7u", true);
  EXPECT_TRUE(fs::exists(folder / "update-00000007" / "weights.safetensors")) << "one host writes no shards";
  go_on(2, "8u", true);
  go_on(2, "9u", false);
  expect_same_updates(found, straight);
}

TEST(ShardedSave, TrainingGoesOnWhileShardsAreWritten) {
  const TemporaryFolder folder;
  TrainConfig config = sharded_config("40u");
  config.checkpoint.keep_last = 100;
  const std::vector<Collector> ranks = train_all_ranks(config, 4, folder.path(), false, "cpu", pieces, 2);
  ASSERT_EQ(ranks[0].checkpoints.size(), 20U);
  for (const CheckpointRecord& checkpoint : ranks[0].checkpoints) {
    EXPECT_EQ(checkpoint.files.size(), 6U) << "two shards each of weights and moments, config.yaml, state.json";
    EXPECT_GT(checkpoint.write_seconds, 0);
    const Checkpoint saved = load_checkpoint(checkpoint.folder).value();
    EXPECT_EQ(saved.weights_digest.root.size(), 64U);
  }
  for (std::size_t rank = 1; rank < 4; ++rank) EXPECT_TRUE(ranks[rank].checkpoints.empty());
  EXPECT_EQ(names_in(folder.path()).size(), 20U) << "nothing unfinished is left";
}

TEST(ShardedSave, HostsWithAFolderEachAreRefused) {
  const TemporaryFolder here, there;
  const TrainConfig config = sharded_config("4u");
  std::vector<std::string> messages(4);
  on_ranks(4, 2, [&](Communicator& communicator) {
    Collector records;
    const auto backend = make_cpu_backend(1);
    const bool first = communicator.hosts()[static_cast<std::size_t>(communicator.rank())] == "here";
    try {
      const Checkpointer keeper(config, first ? here.path() : there.path(), "", *backend, communicator, records);
    } catch (const UsageFailure& failure) {
      messages[static_cast<std::size_t>(communicator.rank())] = failure.what();
    }
  });
  for (const std::string& message : messages) {
    EXPECT_EQ(message, "checkpoint.sharded: rank 2 on there-1: " + there.path().string() +
                           " is not the folder that rank 0 on here has by this name; give all hosts one shared folder "
                           "(--run-dir), or set checkpoint.sharded to false");
  }
  EXPECT_TRUE(names_in(here.path()).empty());
}

/// The ranks of two hosts, two each, save their untrained model; `spoil` changes a rank's before.
template <class Spoil, class Finish>
void save_untrained(const fs::path& folder, Spoil spoil, Finish finish) {
  const TrainConfig config = sharded_config("4u");
  on_ranks(4, 2, [&](Communicator& communicator) {
    Collector records;
    const auto backend = make_cpu_backend(1);
    ModelReplica replica(config, pieces, *backend, communicator);
    replica.initialize(1);
    Checkpointer keeper(config, folder, "", *backend, communicator, records);
    spoil(communicator, replica);
    keeper.start_save(replica, {.progress = {.update = 1}}, {.sacrebleu = 0, .loss = 1});
    finish(communicator, keeper);
    EXPECT_TRUE(records.checkpoints.empty());
  });
  EXPECT_TRUE(names_in(folder).empty());
}

TEST(ShardedSave, EveryRankLearnsThatAHostHasFailed) {
  const TemporaryFolder folder;
  save_untrained(
      folder.path(),
      [](const Communicator& communicator, const ModelReplica& replica) {
        const Parameter& last = replica.model.parameters().all().back();
        if (communicator.rank() == 2) last.master.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      },
      [](const Communicator&, Checkpointer& keeper) {
        const Status saved = *keeper.finish_save(FinishSave::wait);
        ASSERT_FALSE(saved.ok());
        EXPECT_THAT(saved.error(), HasSubstr("rank 2 on there-1: weights are not finite: "));
      });
}

TEST(ShardedSave, EveryRankLearnsThatRank0CannotMakeTheFolder) {
  const TemporaryFolder folder;
  const fs::path moved = folder.path().string() + "-moved";
  save_untrained(
      folder.path(),
      [&](Communicator& communicator, const ModelReplica&) {
        if (communicator.rank() == 0) fs::rename(folder.path(), moved);
        communicator.barrier();
      },
      [&](Communicator& communicator, Checkpointer& keeper) {
        const Status saved = *keeper.finish_save(FinishSave::wait);
        ASSERT_FALSE(saved.ok());
        EXPECT_THAT(saved.error(), HasSubstr("rank 0 on here: checkpoint of update 1 in "));
        communicator.barrier();
        if (communicator.rank() == 0) fs::rename(moved, folder.path());
      });
}

TEST(ShardedSave, AFailureOfTrainingGivesUpWhatOtherHostsWrite) {
  const TemporaryFolder folder;
  save_untrained(
      folder.path(), [](const Communicator&, const ModelReplica&) {},
      [](Communicator& communicator, Checkpointer& keeper) {
        EXPECT_TRUE(soon([&] { return !keeper.writing(); }));
        communicator.barrier();
        const Status saved = *keeper.finish_save(FinishSave::alone);
        ASSERT_FALSE(saved.ok());
        EXPECT_THAT(saved.error(), HasSubstr("before all hosts were known to have written their shards"));
      });
}

}  // namespace
}  // namespace babelring

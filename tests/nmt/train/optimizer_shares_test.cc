#include <gmock/gmock.h>

#include <cstring>
#include <set>
#include <utility>

#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/train_ranks.h"

namespace babelring {
namespace {

using testing::HasSubstr;

/// A model of several rounds of stripes, with clipped gradients.
TrainConfig config_of_shares(DType precision, OptimizerPlacement optimizer) {
  TrainConfig config = small_config();
  config.training.stop_after = "4u";
  config.training.precision = precision;
  config.model.width = 96;
  config.model.inner = 384;
  config.optimizer.adam.clip_norm = 0.5;
  config.optimizer.adam.weight_decay = 0.01;
  config.optimizer.adam.groups = {{.parameters = {"encoder.*"}, .rate_factor = 0.5}};
  config.communication.optimizer = optimizer;
  return config;
}

/// An attempt of a run.
struct Part {
  const char* end;
  OptimizerPlacement optimizer;
  int hosts;
  bool sharded_checkpoint;
};

/// Ranks that share memory, on `hosts` hosts.
std::vector<Collector> train_hosts(const TrainConfig& config, int ranks, int hosts,
                                   const std::filesystem::path& folder = {}) {
  return train_all_ranks(config, ranks, folder, true, "cpu", pieces, hosts);
}

/// A digest waits for all weights, so there is not one after each update.
TEST(OptimizerShares, GiveTheSameBitsAsWholeCopies) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    for (const int micro_batch_tokens : {0, 48}) {
      for (const auto& [hosts, ranks] : {std::pair{2, 2}, {2, 4}, {4, 8}}) {
        TrainConfig config = config_of_shares(precision, OptimizerPlacement::replicated);
        config.data.micro_batch_tokens = micro_batch_tokens;
        config.training.digest_every = "3u";
        const std::vector<Collector> whole = train_hosts(config, ranks, hosts);
        EXPECT_GT(whole[0].steps.at(0).gradient_norm, 0.5);
        config.communication.optimizer = OptimizerPlacement::sharded;
        const std::vector<Collector> shares = train_hosts(config, ranks, hosts);
        for (std::size_t rank = 0; rank < shares.size(); ++rank) {
          SCOPED_TRACE(fmt::format("{} hosts, {} ranks, rank {}", hosts, ranks, rank));
          expect_same_updates(shares[rank].steps, whole[rank].steps);
        }
      }
    }
  }
}

/// The root of the weights' digest, and the bytes of the moments.
std::pair<std::string, std::string> state_of(const std::filesystem::path& folder) {
  const Checkpoint checkpoint = load_checkpoint(folder).value();
  std::string moments;
  const TensorFiles files = checkpoint.optimizer();
  for (const std::string& name : files.names()) {
    const ConstTensor tensor = files.tensor(name);
    moments.append(tensor.as<char>(), tensor.bytes());
  }
  return {checkpoint.weights_digest.root, moments};
}

/// The collectives of threads add in the order of ranks, so that hosts change no bit.
TEST(OptimizerShares, ResumeFromWholeCopiesAndOtherHostsAndBack) {
  using enum OptimizerPlacement;
  for (const DType precision : {DType::f32, DType::bf16}) {
    TrainConfig config = config_of_shares(precision, replicated);
    config.training.stop_after = "9u";
    config.training.ema = 0.9;
    const TemporaryFolder folder, unbroken;
    const std::vector<StepRecord> expected = train_hosts(config, 4, 2, unbroken.path())[0].steps;
    std::vector<StepRecord> found;
    for (const Part& part :
         {Part{"2u", sharded, 2, false}, Part{"4u", replicated, 4, false}, Part{"5u", sharded, 4, true},
          Part{"7u", sharded, 2, true}, Part{"8u", automatic, 1, false}, Part{"9u", sharded, 2, false}}) {
      config.training.stop_after = part.end;
      config.communication.optimizer = part.optimizer;
      config.checkpoint.sharded = part.sharded_checkpoint;
      const std::vector<Collector> ranks = train_hosts(config, 4, part.hosts, folder.path());
      for (const Collector& rank : ranks)
        EXPECT_EQ(rank.steps.back().weights_digest, ranks[0].steps.back().weights_digest);
      found.insert(found.end(), ranks[0].steps.begin(), ranks[0].steps.end());
    }
    expect_same_updates(found, expected);
    EXPECT_TRUE(state_of(folder / "update-00000009") == state_of(unbroken / "update-00000009"));
  }
}

/// The state of update 2 travels beside updates 3 and 4, which change it.
TEST(OptimizerShares, WriteTheSameCheckpoints) {
  for (const auto& [shards, ema] : {std::pair{false, 0.0}, {true, 0.0}, {false, 0.9}, {true, 0.9}}) {
    const TemporaryFolder whole, gathered;
    TrainConfig config = config_of_shares(DType::bf16, OptimizerPlacement::replicated);
    config.training.ema = ema;
    config.checkpoint.every = "2u";
    config.checkpoint.keep_last = 2;
    config.checkpoint.sharded = shards;
    train_hosts(config, 4, 2, whole.path());
    config.communication.optimizer = OptimizerPlacement::sharded;
    train_hosts(config, 4, 2, gathered.path());
    for (const char* name : {"update-00000002", "update-00000004"}) {
      EXPECT_TRUE(state_of(gathered / name) == state_of(whole / name)) << name << ", in shards: " << shards;
    }
    EXPECT_TRUE(state_of(whole / "update-00000002") != state_of(whole / "update-00000004"));
  }
}

/// The values of a tensor.
std::vector<float> values_of(Backend& backend, ConstTensor tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  backend.download(tensor, values.data());
  return values;
}

/// Passes read the average on every rank after an exchange, and the weights after another.
TEST(OptimizerShares, ExchangeTheirPartsOfTheAverage) {
  for (const OptimizerPlacement optimizer : {OptimizerPlacement::replicated, OptimizerPlacement::sharded}) {
    TrainConfig config = config_of_shares(DType::f32, optimizer);
    config.training.ema = 0.9;
    ThreadGroup group(4, true, 2);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 4; ++rank) {
      ranks.emplace_back([&, rank] {
        const auto communicator = group.rank(rank);
        const auto backend = make_cpu_backend(1);
        ModelReplica replica(config, pieces, *backend, *communicator);
        replica.initialize(3);
        const Tensor weights = replica.model.parameters().masters();
        const std::vector<float> before = values_of(*backend, weights);
        std::vector<float> averages(before.size());
        for (std::size_t i = 0; i < averages.size(); ++i) averages[i] = static_cast<float>(i % 1000);
        replica.sharding.write_moment(*replica.adam.average(), rank == 0 ? averages : std::vector<float>());
        replica.exchange_average();
        EXPECT_TRUE(values_of(*backend, weights) == averages) << rank;
        replica.exchange_average();
        EXPECT_TRUE(values_of(*backend, weights) == before) << rank;
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
}

TEST(OptimizerShares, AreCountedInTheRecordsOfMemory) {
  const auto memory = [](OptimizerPlacement optimizer, double ema = 0) {
    TrainConfig config = config_of_shares(DType::bf16, optimizer);
    config.optimizer.adam.weight_decay = 0;  // whose groups are whole
    config.optimizer.adam.groups = {};
    config.training.ema = ema;
    return train_hosts(config, 4, 2)[0].steps.back().memory_bytes;
  };
  const auto averages = memory(OptimizerPlacement::sharded, 0.9);
  EXPECT_EQ(averages.at("moments"), memory(OptimizerPlacement::sharded).at("moments") * 3 / 2);
  const auto whole = memory(OptimizerPlacement::replicated), shares = memory(OptimizerPlacement::sharded);
  EXPECT_EQ(shares.at("moments"), whole.at("moments") / 4) << "those of a rank, not of its host";
  EXPECT_EQ(shares.at("weights"), whole.at("weights") * 2 / 3) << "4 and 2 bytes of each become 2 and 2";
}

TEST(OptimizerShares, HaveNoEffectOnOneHost) {
  TrainConfig config = config_of_shares(DType::f32, OptimizerPlacement::replicated);
  config.training.stop_after = "2u";
  const std::vector<Collector> whole = train_hosts(config, 2, 1);
  config.communication.optimizer = OptimizerPlacement::sharded;
  expect_same_updates(train_hosts(config, 2, 1)[0].steps, whole[0].steps);
}

/// Ranks whose memory the host cannot access, with NCCL between them.
std::vector<Collector> train_gpus(TrainConfig config, int ranks, const std::filesystem::path& folder = {},
                                  int hosts = 1) {
  FakeNccl::reset();
  config.communication.all_reduce = AllReduceAlgorithm::nccl;
  return train_all_ranks(config, ranks, folder, false, "closed", pieces, hosts);
}

/// NCCL's fake adds in the order of ranks, whatever is summed together. 3 ranks: the last round is cut unevenly.
TEST(OptimizerSharesOfGpus, GiveTheSameBitsAsWholeCopies) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    for (const auto& [ranks, micro_batch_tokens] : {std::pair{2, 0}, {3, 0}, {4, 48}}) {
      SCOPED_TRACE(fmt::format("{} ranks, {}, micro-batches of {}", ranks, name_of(precision), micro_batch_tokens));
      TrainConfig config = config_of_shares(precision, OptimizerPlacement::replicated);
      config.data.micro_batch_tokens = micro_batch_tokens;
      config.training.digest_every = "3u";
      config.training.cuda_graphs = ranks == 2;
      config.training.freeze = "embedding";  // a replicated table is summed in two parts, in another order
      const std::vector<Collector> whole = train_gpus(config, ranks);
      config.communication.optimizer = OptimizerPlacement::sharded;
      config.communication.bucket_mb = ranks == 3 ? 0.6 : 0.3;  // several rounds
      const std::vector<Collector> shares = train_gpus(config, ranks);
      for (std::size_t rank = 0; rank < shares.size(); ++rank) {
        expect_same_updates(shares[rank].steps, whole[rank].steps);
      }
      std::set<std::string> functions;
      for (const FakeNccl::Call& call : FakeNccl::calls(0)) functions.insert(call.function);
      EXPECT_THAT(functions, ::testing::IsSupersetOf({"reduce-scatter", "all-gather"}));
      EXPECT_TRUE(precision == DType::f32 || functions.contains("broadcast"));
    }
  }
}

TEST(OptimizerSharesOfGpus, ResumeFromWholeCopiesAndOtherNumbersOfGpus) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    TrainConfig config = config_of_shares(precision, OptimizerPlacement::replicated);
    config.training.freeze = "embedding";
    config.training.stop_after = "6u";
    config.communication.bucket_mb = 0.3;
    const std::vector<StepRecord> expected = train_gpus(config, 2)[0].steps;
    const TemporaryFolder folder;
    std::vector<StepRecord> found;
    using enum OptimizerPlacement;
    for (const Part& part : {Part{"2u", sharded, 1, false}, Part{"3u", replicated, 1, false},
                             Part{"5u", sharded, 2, true}, Part{"6u", sharded, 1, false}}) {
      config.training.stop_after = part.end;
      config.communication.optimizer = part.optimizer;
      config.checkpoint.sharded = part.sharded_checkpoint;
      const std::vector<Collector> ranks = train_gpus(config, 2, folder.path(), part.hosts);
      found.insert(found.end(), ranks[0].steps.begin(), ranks[0].steps.end());
    }
    expect_same_updates(found, expected);
  }
}

TEST(OptimizerSharesOfGpus, KeepTheirMomentsOnly) {
  const auto memory = [](OptimizerPlacement optimizer) {
    TrainConfig config = config_of_shares(DType::bf16, optimizer);
    config.optimizer.adam.weight_decay = 0;  // whose groups are whole
    config.optimizer.adam.groups = {};
    config.communication.bucket_mb = 0.3;
    return train_gpus(config, 2)[0].steps.back().memory_bytes;
  };
  const auto whole = memory(OptimizerPlacement::replicated), shares = memory(OptimizerPlacement::sharded);
  const double stripes = 2.0 * Shards::grain * 2 * sizeof(float);  // a rank's share is a whole number of stripes
  EXPECT_NEAR(static_cast<double>(shares.at("moments")), static_cast<double>(whole.at("moments")) / 2, stripes);
  EXPECT_EQ(shares.at("weights"), whole.at("weights"));
}

/// Why two ranks of two hosts refuse to shard the optimizer's state.
std::string refusal(const std::string& device, int ranks, bool shares_memory) {
  const TrainConfig config = config_of_shares(DType::f32, OptimizerPlacement::sharded);
  ThreadGroup group(ranks, shares_memory, 2);
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      const auto backend = make_test_backend(device);
      try {
        ParameterSharding(*backend, *communicator, config.communication, 4096);
      } catch (const UsageFailure& failure) {
        messages[static_cast<std::size_t>(rank)] = failure.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(messages, ::testing::Each(messages[0]));
  return messages[0];
}

TEST(OptimizerShares, AreRefusedWhereHostsCannotExchangeThem) {
  EXPECT_EQ(refusal("cpu", 2, true), "");
  EXPECT_THAT(refusal("closed", 2, true), HasSubstr("communication.optimizer sharded needs NCCL between GPUs"));
  EXPECT_THAT(refusal("cpu", 4, false), HasSubstr("communication.optimizer sharded needs hosts with equal numbers"));
}

}  // namespace
}  // namespace babelring

#include "nmt/train/sequences_plan.h"

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/failure.h"
#include "nmt/data/gssm/finite_data.h"
#include "nmt/ops/dry_backend.h"
#include "nmt/ops/every_op.h"
#include "nmt/train/setup/memory_plan.h"
#include "nmt/train/setup/task_data.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/gssm_training.h"

namespace babelring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t mib = std::size_t{1} << 20;

/// Memory of a 4 GiB GPU, of which a rank may use `usable` bytes: 10 % and 1 GiB stay free for ops, 2 % for
/// allocations after the plan.
MemoryInfo room_of(std::size_t usable) {
  const std::size_t total = 4096 * mib;
  const auto part = [&](double of_total) { return static_cast<std::size_t>(static_cast<double>(total) * of_total); };
  return {.free = part(memory_margin) + device_margin_bytes + part(0.02) + usable, .total = total};
}

TrainConfig automatic_config() {
  TrainConfig config = small_gssm_config();
  config.data.sequences_per_update = DataConfig::automatic;
  return config;
}

std::int64_t sequences_that_fit(const TrainConfig& config, const MemoryInfo& room, Communicator& communicator) {
  const auto backend = make_dry_backend(room);
  return with_sequences_that_fit(config, DataConfig::automatic, *backend, communicator).data.sequences_per_update;
}

/// Memory of a rank that trains on updates of `sequences`.
std::size_t need_of(std::int64_t sequences) {
  TrainConfig config = small_gssm_config();
  config.data.sequences_per_update = sequences;
  return static_cast<std::size_t>(estimate_memory(config, 8, 1, 0).total());
}

TEST(SequencesPlan, FillsTheMemoryExceptTheMargins) {
  const auto alone = make_single_communicator();
  for (const std::size_t usable : {3 * mib, 40 * mib}) {
    const std::int64_t found = sequences_that_fit(automatic_config(), room_of(usable), *alone);
    EXPECT_LE(need_of(found), usable);
    EXPECT_GT(need_of(found + found / 100 + 2), usable);
  }
}

TEST(SequencesPlan, IsTheSameOnAllRanksAndFitsTheSmallest) {
  ThreadGroup group(3);
  std::vector<std::int64_t> found(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const std::size_t usable = (rank == 1 ? 3 : 30) * mib;
      const auto communicator = group.rank(rank);
      found[static_cast<std::size_t>(rank)] = sequences_that_fit(automatic_config(), room_of(usable), *communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, std::vector<std::int64_t>(3, found[0]));
  EXPECT_EQ(found[0] % 3, 0);
  EXPECT_LE(need_of(found[0] / 3), 3 * mib);
  EXPECT_GT(need_of(found[0]), 3 * mib);
}

/// A CPU with a tebibyte of memory, whose ops take at least 0.2 ms and compute nothing.
class SlowHost final : public EveryOp<SlowHost> {
 public:
  void upload(const void* host, Tensor to) override { cpu_->upload(host, to); }
  void download(ConstTensor from, void* host) override { cpu_->download(from, host); }
  void synchronize() override {}
  std::string description() const override { return "slow"; }
  MemoryInfo memory() const override { return {.free = std::size_t{1} << 40, .total = std::size_t{1} << 40}; }
  void launch(const auto&) { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

 private:
  Buffer do_allocate(std::size_t bytes, MemoryPurpose purpose) override { return cpu_->allocate(bytes, purpose); }
  std::unique_ptr<Backend> cpu_ = make_cpu_backend(1);
};

TEST(SequencesPlan, LimitsTheTimeOfAnUpdateOnACpu) {
  SlowHost slow;
  const auto alone = make_single_communicator();
  const TrainConfig config = automatic_config();
  const std::int64_t sequences =
      with_sequences_that_fit(config, DataConfig::automatic, slow, *alone).data.sequences_per_update;
  // A pass over 132 sequences has at least 50 ops, so it takes at least 10 ms; 15 s are those of at most 198,000.
  EXPECT_LE(sequences, 198'000);
  EXPECT_GE(sequences, 1);
  const auto device = make_dry_backend({.free = std::size_t{1} << 40, .total = std::size_t{1} << 40});
  const std::int64_t fitting =
      with_sequences_that_fit(config, DataConfig::automatic, *device, *alone).data.sequences_per_update;
  EXPECT_EQ(fitting, max_estimated_tokens / 31) << "that fit into memory";
}

TEST(SequencesPlan, LeavesHalfOfAHostsMemoryToOthers) {
  const auto cpu = make_cpu_backend(1);
  const auto device = make_dry_backend();
  const auto alone = make_single_communicator();
  const MemoryInfo room{.free = 1400 * mib, .total = 1500 * mib};
  const TrainConfig config = small_gssm_config();
  const LaterMemory later = later_memory(config, *cpu, 1000, 5'000'000);
  EXPECT_EQ(later.of_host, 60'000'000U) << "a copy for a checkpoint";
  EXPECT_EQ(later.of_rank, process_growth_bytes + (4 + 1 + 1) * 12'000U) << "batches that wait";
  const std::size_t usable = arena_room(*cpu, *alone, room, later);
  EXPECT_EQ(usable, room.free - 150 * mib - later.of_host - later.of_rank);
  EXPECT_EQ(arena_part(*cpu, usable), usable / 2);
  EXPECT_EQ(arena_part(*device, usable), usable);
  EXPECT_EQ(later_memory(config, *device, 1000, 5'000'000).of_host, 0U);
  EXPECT_EQ(arena_room(*cpu, *alone, {.free = 100 * mib, .total = 1500 * mib}, later), 0U);
}

TEST(SequencesPlan, TakesAtMostTheSequencesOfTheTrainingSet) {
  const TemporaryFolder folder;
  TrainConfig config = automatic_config();
  write_gssm_data({.config = {.gssm = config.gssm, .sequence_length = 32, .seed = 9},
                   .output = folder.path(),
                   .train = 7,
                   .test = 2});
  config.data.folder = folder.path();
  EXPECT_EQ(sequences_that_fit(config, room_of(40 * mib), *make_single_communicator()), 7);
  ThreadGroup group(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] { EXPECT_EQ(sequences_that_fit(config, room_of(40 * mib), *group.rank(rank)), 7); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SequencesPlan, KeepsTheNumberOfARunAndAGivenOne) {
  const auto alone = make_single_communicator();
  const auto backend = make_dry_backend();
  EXPECT_EQ(with_sequences_that_fit(automatic_config(), 5, *backend, *alone).data.sequences_per_update, 5);
  const TrainConfig given = small_gssm_config();
  EXPECT_EQ(with_sequences_that_fit(given, 5, *backend, *alone).data.sequences_per_update, 8);
}

TEST(SequencesPlan, FailsInOneLine) {
  const auto alone = make_single_communicator();
  EXPECT_THAT([&] { sequences_that_fit(automatic_config(), room_of(1000), *alone); },
              ThrowsMessage<UsageFailure>(
                  AllOf(HasSubstr("data.sequences_per_update: auto: the model and a sequence of 32 tokens need "),
                        HasSubstr(std::to_string(need_of(1)) + " bytes, a rank may use 1000"))));
  EXPECT_THAT([&] { sequences_that_fit(automatic_config(), {}, *alone); },
              ThrowsMessage<UsageFailure>(HasSubstr("free memory is unknown on at least one rank; give a number")));
  EXPECT_THAT([] { open_task_data(automatic_config()); },
              ThrowsMessage<UsageFailure>(HasSubstr("auto is found by a run when it begins; expected a number")));
}

}  // namespace
}  // namespace babelring

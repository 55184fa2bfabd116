#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "nmt/data/text_source.h"
#include "nmt/parallel/device.h"
#include "nmt/train/pair_losses.h"
#include "tests/nmt/comm/fake_nccl.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/trained_rank.h"
#include "tests/reference/test_backends.h"

namespace babelring {

inline Corpus small_corpus(bool links = false) {
  return make_synthetic(
      {.task = SyntheticTask::reverse, .sentences = 500, .vocabulary_size = pieces, .max_length = 12, .links = links});
}

/// Trains one rank. Writes no checkpoints if `folder` is empty.
inline void train_rank(const TrainConfig& config, const Corpus& corpus, Communicator& communicator,
                       const std::filesystem::path& folder, Collector& records, const StopRequest& stop = {},
                       const std::string& device = "cpu", int vocabulary = pieces, UpdateObserver* lab = nullptr) {
  const auto backend = make_test_backend(device);
  const GradientComm gradient_comm =
      choose_gradient_comm(config.communication, 1 << 20, *backend, communicator, [] { return FakeNccl::library(); });
  Communicator& ranks = gradient_comm.nccl ? *gradient_comm.nccl : communicator;
  TextSource source(corpus, config.plan_options());
  PairLosses losses(folder / pair_losses_name, corpus, "");
  run_rank({.config = config,
            .backend = *backend,
            .communicator = ranks,
            .source = source,
            .records = records,
            .folder = folder,
            .stop = stop,
            .lab = lab,
            .pair_losses = ranks.rank() == 0 && config.training.pair_losses ? &losses : nullptr,
            .vocabulary = vocabulary});
}

/// Trains `ranks` ranks as threads and returns the records of each rank.
inline std::vector<Collector> train_on(const Corpus& corpus, const TrainConfig& config, int ranks,
                                       const std::filesystem::path& folder = {}, bool shares_memory = false,
                                       const std::string& device = "cpu", int vocabulary = pieces, int hosts = 1) {
  ThreadGroup group(ranks, shares_memory, hosts);
  std::vector<Collector> collectors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      train_rank(config, corpus, *communicator, folder, collectors[static_cast<std::size_t>(rank)], {}, device,
                 vocabulary);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return collectors;
}

/// The same on small_corpus().
inline std::vector<Collector> train_all_ranks(const TrainConfig& config, int ranks,
                                              const std::filesystem::path& folder = {}, bool shares_memory = false,
                                              const std::string& device = "cpu", int vocabulary = pieces,
                                              int hosts = 1) {
  return train_on(small_corpus(config.training.guided_alignment > 0), config, ranks, folder, shares_memory, device,
                  vocabulary, hosts);
}

/// The step records of rank 0.
inline std::vector<StepRecord> train_steps(const TrainConfig& config, int ranks,
                                           const std::filesystem::path& folder = {}, bool shares_memory = false,
                                           const std::string& device = "cpu") {
  return train_all_ranks(config, ranks, folder, shares_memory, device)[0].steps;
}

/// The bits of an update, except for times.
inline void expect_same_updates(const std::vector<StepRecord>& found, const std::vector<StepRecord>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].weights_digest, expected[i].weights_digest) << "update " << i + 1;
    EXPECT_EQ(found[i].loss, expected[i].loss) << "update " << i + 1;
    EXPECT_EQ(found[i].gradient_norm, expected[i].gradient_norm) << "update " << i + 1;
    for (const auto loss : {&StepRecord::alignment_loss, &StepRecord::r_drop_loss}) {
      if (std::isnan(found[i].*loss) && std::isnan(expected[i].*loss)) continue;
      EXPECT_EQ(found[i].*loss, expected[i].*loss) << "update " << i + 1;
    }
  }
}

}  // namespace babelring

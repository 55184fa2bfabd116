#pragma once

#include <filesystem>
#include <optional>

#include "nmt/train/trainer.h"
#include "tests/nmt/train/small_training.h"

namespace babelring {

/// One rank of a small training.
struct TrainedRank {
  const TrainConfig& config;
  Backend& backend;
  Communicator& communicator;
  UpdateSource& source;
  RecordSink& records;
  std::filesystem::path folder = {};  // of checkpoints; empty: none
  const StopRequest& stop;
  UpdateObserver* lab = nullptr;
  PairLosses* pair_losses = nullptr;
  int threads = 1;
  int vocabulary = pieces;
};

/// Trains it, from the newest checkpoint in its folder if there is one.
inline void run_rank(const TrainedRank& rank) {
  std::optional<Checkpointer> checkpoints;
  if (!rank.folder.empty()) {
    checkpoints.emplace(rank.config, rank.folder, "", rank.backend, rank.communicator, rank.records);
  }
  Trainer trainer({.config = rank.config,
                   .backend = rank.backend,
                   .communicator = rank.communicator,
                   .source = rank.source,
                   .checkpoints = checkpoints ? &*checkpoints : nullptr,
                   .records = rank.records,
                   .stop = rank.stop,
                   .lab = rank.lab,
                   .pair_losses = rank.pair_losses,
                   .threads = rank.threads,
                   .model_vocabulary = rank.vocabulary});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
}

}  // namespace babelring

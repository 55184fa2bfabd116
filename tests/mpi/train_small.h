#pragma once

#include <filesystem>
#include <vector>

#include "nmt/data/text_source.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/trained_rank.h"

namespace babelring {

/// Trains on `sentences` synthetic pairs, from the newest checkpoint in `folder` if there is one; empty: without
/// checkpoints. Returns this rank's records of the updates.
inline std::vector<StepRecord> train_small(const TrainConfig& config, Communicator& communicator,
                                           const std::filesystem::path& folder, int threads = 1, int sentences = 500,
                                           UpdateObserver* lab = nullptr) {
  const Corpus corpus =
      make_synthetic({.task = SyntheticTask::reverse, .sentences = sentences, .vocabulary_size = pieces});
  const auto backend = make_cpu_backend(threads);
  Collector records;
  const StopRequest stop;
  TextSource source(corpus, config.plan_options());
  run_rank({.config = config,
            .backend = *backend,
            .communicator = communicator,
            .source = source,
            .records = records,
            .folder = folder,
            .stop = stop,
            .lab = lab,
            .threads = threads});
  return records.steps;
}

}  // namespace babelring

#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "lab/tools/lab.h"
#include "nmt/data/text_source.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/trained_rank.h"

namespace babelring::lab_training {

class Records : public RecordSink {
 public:
  void write(RecordBody body) override {
    if (auto* artifact = std::get_if<ArtifactRecord>(&body)) artifacts.push_back(std::move(*artifact));
    if (auto* step = std::get_if<StepRecord>(&body)) steps.push_back(std::move(*step));
  }
  std::vector<ArtifactRecord> artifacts;
  std::vector<StepRecord> steps;
};

/// Trains a small model on one rank with the tools that the configuration turns on, and returns the records.
inline Records train(const TrainConfig& config, const std::filesystem::path& lab_folder) {
  const Corpus corpus = make_synthetic({.sentences = 200, .vocabulary_size = pieces, .max_length = 12});
  const auto backend = make_cpu_backend(1);
  const auto communicator = make_single_communicator();
  Records records;
  SpanLog spans;
  const std::unique_ptr<Lab> lab = make_lab({.config = config,
                                             .folder = lab_folder,
                                             .corpus = corpus.digest(),
                                             .run = "r_1",
                                             .records = records,
                                             .spans = spans});
  const StopRequest stop;
  TextSource source(corpus, config.plan_options());
  run_rank({.config = config,
            .backend = *backend,
            .communicator = *communicator,
            .source = source,
            .records = records,
            .stop = stop,
            .lab = lab.get()});
  return records;
}

}  // namespace babelring::lab_training

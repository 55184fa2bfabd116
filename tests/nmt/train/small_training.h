#pragma once

#include <vector>

#include "base/records/records.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// Vocabulary size of the synthetic tasks.
inline constexpr int pieces = 32;

/// Collects the trainer's records.
class Collector : public RecordSink {
 public:
  void write(RecordBody body) override {
    if (const auto* step = std::get_if<StepRecord>(&body)) steps.push_back(*step);
    if (const auto* evaluation = std::get_if<EvalRecord>(&body)) evaluations.push_back(*evaluation);
    if (const auto* checkpoint = std::get_if<CheckpointRecord>(&body)) checkpoints.push_back(*checkpoint);
    if (const auto* life = std::get_if<LifecycleRecord>(&body)) lifecycle.push_back(*life);
  }
  std::vector<StepRecord> steps;
  std::vector<EvalRecord> evaluations;
  std::vector<CheckpointRecord> checkpoints;
  std::vector<LifecycleRecord> lifecycle;
};

/// A configuration with a small model and small updates: f32, dropout, a weights digest after each update.
inline TrainConfig small_config() {
  TrainConfig config;
  config.model.encoder_layers = config.model.decoder_layers = 2;
  config.model.width = 32;
  config.model.heads = 4;
  config.model.inner = 64;
  config.data.tokens_per_update = 200;
  config.optimizer.schedule.learning_rate = 0.003;
  config.optimizer.schedule.warm_up = "20u";
  config.training.precision = DType::f32;
  config.training.digest_every = "1u";
  config.communication.bucket_mb = 0.02;
  config.checkpoint.every = "0u";
  return config;
}

}  // namespace babelring

#pragma once

#include "tests/nmt/train/small_training.h"

namespace babelring {

/// A small language model of generated sequences: a latent node of 4 states, 8 tokens, length 32.
inline TrainConfig small_gssm_config() {
  TrainConfig config = read_gssm_task(
      "gssm:\n  - {name: Z, state_dim: 4, parents: [X]}\n  - {name: X, state_dim: 8, parents: [Z]}\n", "small.yaml",
      {"gssm.alpha_X=0.3", "gssm.alpha_Z=0.3", "data.sequence_length=32", "data.sequences_per_update=8",
       "validation.sequences=8"});
  const TrainConfig small = small_config();
  config.model = small.model;
  config.model.encoder_layers = 0;
  config.model.dropout = 0;
  config.optimizer.schedule = small.optimizer.schedule;
  config.training = small.training;
  config.communication = small.communication;
  config.checkpoint.every = "0u";
  return config;
}

}  // namespace babelring

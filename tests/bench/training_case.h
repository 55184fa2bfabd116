#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nmt/train/update_runner.h"

namespace babelring {

/// What is trained, and on what: random tokens in sentences of one length.
struct TrainingCaseOptions {
  std::string preset = "base";                          // of ModelConfig, without "transformer-"
  std::string precision = "bf16";                       // or f32
  std::string norm = "post";                            // or pre
  int threads = 0;                                      // of each rank; 0: all
  std::int64_t sentences = 64;                          // pairs of an update, over all ranks
  std::int64_t source_length = 32, target_length = 32;  // tokens, </s> included
  std::int64_t vocabulary = 32000;
  double dropout = -1;  // on embeddings and sub-layer outputs; negative: the preset's
  double attention_dropout = 0, activation_dropout = 0;
  bool attention_bias = true;
  std::string tied_embeddings = "all";
};

/// A model with all that UpdateRunner needs, and the one update that is run again and again, as `worker` runs it.
class TrainingCase {
 public:
  /// `communicator` must outlive the case.
  TrainingCase(const TrainingCaseOptions& options, Communicator& communicator);

  /// One update with the Noam schedule (Vaswani et al. 2017, eq. 3, 4,000 updates of warm-up); on every rank.
  StepRecord update();

  Backend& backend() { return *backend_; }
  const TrainConfig& config() const { return config_; }
  const Transformer& model() const { return model_; }
  DType precision() const { return model_.compute_dtype(); }
  const UpdateBatches& batches() const { return batches_; }
  /// Bytes that one update of this rank cannot avoid to move; docs/performance.md derives them.
  double unavoidable_bytes() const;

 private:
  TrainConfig config_;
  Communicator& communicator_;
  std::unique_ptr<Backend> backend_;
  Transformer model_;
  Adam adam_;
  Workspace workspace_;
  UpdateRunner runner_;
  UpdateBatches batches_;
  std::int64_t done_ = 0;
};

}  // namespace babelring

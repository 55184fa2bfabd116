#pragma once

#include <cstdint>
#include <memory>

#include "nmt/train/update/update_gradients.h"

namespace babelring {

/// Sizes of the batch of a dry update.
struct DryBatch {
  std::int64_t vocabulary = 0;
  std::int64_t source_tokens = 0, target_tokens = 0;  // of one micro-batch, with </s>; a language model has no source
  std::int64_t sentences = 0;                         // of equal length; 0: of 32 tokens on the longer side
};

/// One rank's updates without data, memory or computing: the ops of an update as they would run on the configured
/// device. training.device: cuda stands for a GPU with the largest chunks of logits, anything else for the
/// CPU.
class DryUpdate {
 public:
  /// Throws Failure if a size is less than 1 or more than 16,777,216 tokens.
  DryUpdate(const TrainConfig& config, const DryBatch& sizes);

  DryUpdate(const DryUpdate&) = delete;
  DryUpdate& operator=(const DryUpdate&) = delete;

  /// Forward and backward of one micro-batch, then the optimizer.
  void run();
  /// Forward without dropout, as in validation.
  void run_inference();

  ModelReplica& replica() { return *replica_; }
  /// "cpu" or "cuda".
  const char* device() const { return device_; }
  const DryBatch& sizes() const { return sizes_; }

 private:
  const TrainConfig config_;
  const DryBatch sizes_;
  const char* device_;
  const std::unique_ptr<Backend> backend_;
  const std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<ModelReplica> replica_;
  StepClock clock_;
  std::unique_ptr<UpdateGradients> gradients_;
  UpdateBatches batches_;
};

}  // namespace babelring

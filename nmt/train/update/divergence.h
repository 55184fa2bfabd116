#pragma once

#include <cstdint>
#include <string>

#include "base/failure.h"
#include "base/records/records.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// The ranks' weights differ, although all performed the same updates. Thrown on every rank.
class RanksDiffer : public Failure {
 public:
  using Failure::Failure;
};

/// SHA-256 of the weights, compared over all ranks. Ranks with one copy hash it once, on the first of them.
struct RankDigest {
  std::string weights;     // this rank's, as 64 hexadecimal digits
  std::string difference;  // one line that names update, parameters and ranks, equal on all ranks; empty: no difference
};

/// Collective.
RankDigest digest_over_ranks(const ModelReplica& replica, std::int64_t update);

/// Training diverged and no rewind is left. Thrown on every rank.
class Diverged : public Failure {
 public:
  using Failure::Failure;
};

/// Detects divergence: training.divergence.after consecutive updates skipped because of a non-finite gradient, or a
/// non-finite validation loss. All ranks pass equal records, so all come to the same decision.
class DivergenceWatch {
 public:
  /// `config` must outlive the watch.
  explicit DivergenceWatch(const TrainConfig& config);

  /// Call after each update. Reads update, loss, gradient_norm and skipped.
  void note(const StepRecord& step);
  /// Call after each evaluation. Reads update, set and loss.
  void note(const EvalRecord& evaluation);

  bool diverged() const { return !cause_.empty(); }
  /// Number of consecutive skipped updates up to now.
  std::int64_t skipped() const { return skipped_; }
  /// The last update with a finite gradient; 0: none.
  std::int64_t last_finite_update() const { return last_finite_update_; }

  /// One line: update and cause, the last finite loss and gradient norm, and advice.
  std::string description() const;

  /// Forgets everything, for training that continues from another state.
  void reset() { *this = DivergenceWatch(*config_); }

 private:
  void diverge(std::int64_t update, std::string cause);

  const TrainConfig* config_;
  std::int64_t after_ = 0;  // 0: never
  std::int64_t skipped_ = 0, last_finite_update_ = 0, update_ = 0;
  double last_loss_ = 0, last_norm_ = 0;
  std::string cause_;
};

}  // namespace babelring

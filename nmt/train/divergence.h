#pragma once

#include <cstdint>
#include <string>

#include "base/failure.h"
#include "base/records.h"
#include "nmt/train/config.h"

namespace babelring {

/// Training has diverged and may not be rewound (any more). Thrown by every rank alike.
class Diverged : public Failure {
 public:
  using Failure::Failure;
};

/// Watches for divergence: training.divergence.after updates skipped one after another, because their gradient was not
/// finite, or an evaluation whose loss is not finite. Its input is what every rank knows equally, so all ranks decide
/// alike.
class DivergenceWatch {
 public:
  /// `config` must outlive the watch.
  explicit DivergenceWatch(const TrainConfig& config);

  /// After an update, with its loss, norm and whether it was skipped.
  void note(const StepRecord& step);
  /// After an evaluation, its update set.
  void note(const EvalRecord& evaluation);

  bool diverged() const { return !cause_.empty(); }
  /// Updates skipped since the last one that was not.
  std::int64_t skipped() const { return skipped_; }
  /// The last update that was not skipped; 0: none. The weights before it gave a finite gradient.
  std::int64_t last_finite_update() const { return last_finite_update_; }

  /// One line: at which update and why, the last finite loss and gradient norm, and what to try.
  std::string description() const;

  /// Training goes on from another state.
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

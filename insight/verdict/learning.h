#pragma once

#include <cstdint>
#include <vector>

#include "insight/verdict/health.h"

namespace babelring::verdict {

/// Number of newest updates that learning is judged by.
inline constexpr std::int64_t learning_window = 128;
/// Number of newest evaluations that learning is judged by.
inline constexpr std::int64_t learning_evaluations = 100;

/// The outcome of one update.
struct TrainedUpdate {
  std::int64_t update = 0;
  double loss = 0;       // may be NaN or infinite
  bool skipped = false;  // its gradient was not finite
};

/// A validation during training, on one validation set.
struct ValidationResult {
  std::int64_t update = 0;
  double loss = 0;       // NaN if it was not finite
  double sacrebleu = 0;  // NaN if nothing was translated
};

/// The newest updates and evaluations, each by rising update.
struct Course {
  std::vector<TrainedUpdate> updates;
  std::vector<ValidationResult> evaluations;
};

/// Whether the model improves. Finds non-finite losses, divergence, overfitting and plateaus, in this order.
HealthPart judge_learning(const Course& course);

}  // namespace babelring::verdict

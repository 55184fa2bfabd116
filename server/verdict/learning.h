#pragma once

#include <cstdint>
#include <vector>

#include "server/verdict/health.h"

namespace babelring::verdict {

/// Updates that learning is judged by.
inline constexpr std::int64_t learning_window = 128;
/// Evaluations that learning is judged by.
inline constexpr std::int64_t learning_evaluations = 12;

/// What an update did to the model.
struct TrainedUpdate {
  std::int64_t update = 0;
  double loss = 0;       // NaN or infinite where it is not finite
  bool skipped = false;  // its gradient was not finite
};

/// A validation by the training itself, on one set.
struct Evaluation {
  std::int64_t update = 0;
  double loss = 0;       // NaN where it is not finite
  double sacrebleu = 0;  // NaN where nothing was translated
};

/// The newest of both, by rising update.
struct Course {
  std::vector<TrainedUpdate> updates;
  std::vector<Evaluation> evaluations;
};

/// Whether the model gets better: not finite, diverging, overfitting, no longer better, or well.
HealthPart judge_learning(const Course& course);

}  // namespace babelring::verdict

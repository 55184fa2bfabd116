#include "nmt/train/update/divergence.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace babelring {

DivergenceWatch::DivergenceWatch(const TrainConfig& config)
    : config_(&config), after_(static_cast<std::int64_t>(config.training.divergence.after.value())) {}

void DivergenceWatch::note(const StepRecord& step) {
  if (!step.skipped) {
    skipped_ = 0;
    last_finite_update_ = step.update;
    last_loss_ = step.loss;
    last_norm_ = step.gradient_norm;
    return;
  }
  if (++skipped_ == after_)
    diverge(step.update, fmt::format("{} consecutive updates had a non-finite gradient", skipped_));
}

void DivergenceWatch::note(const EvalRecord& evaluation) {
  if (after_ == 0 || std::isfinite(evaluation.loss)) return;
  diverge(evaluation.update, fmt::format("the loss on {} is {}", evaluation.set, evaluation.loss));
}

void DivergenceWatch::diverge(std::int64_t update, std::string cause) {
  if (diverged()) return;
  update_ = update;
  cause_ = std::move(cause);
}

std::string DivergenceWatch::description() const {
  const OptimizerConfig& optimizer = config_->optimizer;
  const std::string finite =
      last_finite_update_ == 0
          ? "no update had a finite gradient"
          : fmt::format("the last finite values were loss {:.4g} and gradient norm {:.4g} at update {}", last_loss_,
                        last_norm_, last_finite_update_);
  return fmt::format(
      "{}{}: {}; {}; try a lower optimizer.learning_rate (now {:g}), a longer "
      "optimizer.warm_up (now {}) or optimizer.clip_norm (now {})",
      diverged_prefix, update_, cause_, finite, optimizer.schedule.learning_rate, optimizer.schedule.warm_up.text(),
      optimizer.adam.clip_norm > 0 ? fmt::format("{:g}", optimizer.adam.clip_norm) : "off");
}

}  // namespace babelring

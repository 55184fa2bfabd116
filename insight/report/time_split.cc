#include "insight/report/time_split.h"

#include <algorithm>
#include <set>

namespace babelring::insight {
namespace {

/// Walks over rank 0's steps in their order and gives each gap between them a reason.
class TimeWalk {
 public:
  explicit TimeWalk(const RunHistory& history) : history_(history), steps_(history.first_rank()->steps) {
    double sum = 0;
    for (const HistoryStep& step : steps_) sum += step.times.step_ms;
    mean_ms_ = sum / static_cast<double>(steps_.size());
  }

  TimeSplit split() {
    const double first = first_ms(), last = last_ms();
    std::set<std::int64_t> attempts;
    double cursor = first;
    const HistoryStep* before = nullptr;
    for (const HistoryStep& step : steps_) {
      const auto end = static_cast<double>(step.times.time_ms);
      attempts.insert(step.attempt);
      add_gap(before, step, cursor, end - step.times.step_ms - cursor);
      split_.training += step.times.step_ms;
      cursor = end;
      before = &step;
    }
    add_pause(before->times.update, history_.last_update(), last - cursor);
    split_.wall = last - first;
    split_.attempts = static_cast<std::int64_t>(attempts.size());
    for (double* part :
         {&split_.wall, &split_.training, &split_.validation, &split_.checkpoints, &split_.waiting, &split_.lost}) {
      *part /= 1000;
    }
    return split_;
  }

 private:
  double first_ms() const {
    const double begin = static_cast<double>(steps_.front().times.time_ms) - steps_.front().times.step_ms;
    return history_.events.empty() ? begin : std::min(begin, static_cast<double>(history_.events.front().time_ms));
  }

  double last_ms() const {
    std::int64_t last = steps_.back().times.time_ms;
    for (const LifecycleEvent& event : history_.events) last = std::max(last, event.time_ms);
    for (const HistoryEval& eval : history_.evals) last = std::max(last, eval.time_ms);
    for (const HistoryCheckpoint& each : history_.checkpoints) last = std::max(last, each.time_ms);
    return static_cast<double>(last);
  }

  bool went_back(double from, double to) const {
    return std::ranges::any_of(history_.events, [&](const LifecycleEvent& event) {
      const auto at = static_cast<double>(event.time_ms);
      return event.event == "rewound" && at >= from && at <= to;
    });
  }

  void add_gap(const HistoryStep* before, const HistoryStep& step, double cursor, double gap) {
    if (before == nullptr) {
      split_.waiting += gap;
      return;
    }
    // Updates that were not read take the mean of those that were.
    const auto unread = static_cast<double>(step.times.update - before->times.update - 1);
    if (unread > 0) {
      split_.estimated = true;
      split_.training += unread * mean_ms_;
      gap -= unread * mean_ms_;
    }
    const bool back = went_back(cursor, static_cast<double>(step.times.time_ms));
    split_.rewinds += back ? 1 : 0;
    if (back || before->attempt != step.attempt) {
      split_.lost += gap;
    } else {
      add_pause(before->times.update, step.times.update - 1, gap);
    }
  }

  /// Splits a pause after the updates `first` to `last`.
  void add_pause(std::int64_t first, std::int64_t last, double gap) {
    double validations = 0, writes = 0;
    for (; eval_ < history_.evals.size() && history_.evals[eval_].eval.update <= last; ++eval_) {
      if (history_.evals[eval_].eval.update >= first) validations += history_.evals[eval_].eval.seconds * 1000;
    }
    const auto& pauses = history_.checkpoint_pauses;
    for (; checkpoint_ < pauses.size() && pauses[checkpoint_].first <= last; ++checkpoint_) {
      // The recorded time begins after the weights have been copied.
      const double ms = pauses[checkpoint_].second * 1000;
      if (pauses[checkpoint_].first >= first) writes += std::max(3 * ms, ms + 500);
    }
    const double validation = std::min(validations, std::max(gap, 0.0));
    const double checkpoint = std::min(writes, std::max(gap - validation, 0.0));
    split_.validation += validation;
    split_.checkpoints += checkpoint;
    split_.waiting += gap - validation - checkpoint;
  }

  const RunHistory& history_;
  const std::vector<HistoryStep>& steps_;
  double mean_ms_ = 0;
  std::size_t eval_ = 0, checkpoint_ = 0;
  TimeSplit split_;
};

}  // namespace

TimeSplit split_time(const RunHistory& history) {
  return TimeWalk(history).split();
}

}  // namespace babelring::insight

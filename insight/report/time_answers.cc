#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "insight/predict/fits.h"
#include "insight/report/answers.h"
#include "insight/report/report_text.h"
#include "insight/report/run_history.h"

namespace babelring::insight {
namespace {

/// Where the wall-clock time of a run went, in seconds. The parts add up to `wall`.
struct TimeSplit {
  double wall = 0;         // from the first record to the last
  double training = 0;     // within updates
  double validation = 0;   // recorded durations, as far as training stood still
  double checkpoints = 0;  // training stood still for them
  double waiting = 0;      // at the start, between updates without another reason, at the end
  double lost = 0;         // between attempts, and updates that were done again
  std::int64_t attempts = 1, rewinds = 0;
  bool estimated = false;  // not all updates were read
};

/// Walks over rank 0's steps in their order and gives each gap between them a reason.
class TimeWalk {
 public:
  explicit TimeWalk(const RunHistory& history) : history_(history), steps_(history.first_rank()->steps) {
    double sum = 0;
    for (const HistoryStep& step : steps_) sum += step.times.step;
    mean_ms_ = sum / static_cast<double>(steps_.size());
  }

  TimeSplit split() {
    const double first = first_ms(), last = last_ms();
    std::set<std::int64_t> attempts;
    double cursor = first;
    const HistoryStep* before = nullptr;
    for (const HistoryStep& step : steps_) {
      const auto end = static_cast<double>(step.time_ms);
      attempts.insert(step.attempt);
      add_gap(before, step, cursor, end - step.times.step - cursor);
      split_.training += step.times.step;
      cursor = end;
      before = &step;
    }
    add_pause(before->update, history_.last_update(), last - cursor);
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
    const double begin = static_cast<double>(steps_.front().time_ms) - steps_.front().times.step;
    return history_.events.empty() ? begin : std::min(begin, static_cast<double>(history_.events.front().time_ms));
  }

  double last_ms() const {
    std::int64_t last = steps_.back().time_ms;
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
    const auto unread = static_cast<double>(step.update - before->update - 1);
    if (unread > 0) {
      split_.estimated = true;
      split_.training += unread * mean_ms_;
      gap -= unread * mean_ms_;
    }
    const bool back = went_back(cursor, static_cast<double>(step.time_ms));
    split_.rewinds += back ? 1 : 0;
    if (back || before->attempt != step.attempt) {
      split_.lost += gap;
    } else {
      add_pause(before->update, step.update - 1, gap);
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

/// From rank 0's records. Requires at least one step.
TimeSplit split_time(const RunHistory& history) {
  return TimeWalk(history).split();
}

constexpr double min_named_share = 0.001;  // of the wall time; smaller parts are in the numbers only
constexpr const char* no_steps = "rank 0 has not reported any update";

std::vector<double> step_times(const RankHistory& rank) {
  std::vector<double> times;
  for (const HistoryStep& step : rank.steps) times.push_back(step.times.step);
  return times;
}

/// The steps that an answer rests on, such as "50,000 step records of rank 0".
std::string steps_read(const RunHistory& history) {
  const auto& steps = history.first_rank()->steps;
  const std::int64_t updates = history.last_update();
  const auto read = static_cast<double>(steps.size());
  if (steps.front().update == 1 && updates == static_cast<std::int64_t>(steps.size()))
    return count_of(read, "step record") + " of rank 0";
  return fmt::format("{} of rank 0, of {}", count_of(read, "step record"),
                     count_of(static_cast<double>(updates), "update"));
}

Plot time_plot(const TimeSplit& split) {
  const bool hours = split.wall >= 7200;
  const double unit = hours ? 3600 : 1;
  return {.kind = Plot::Kind::bars,
          .title = "Where the time went",
          .y_label = hours ? "hours" : "seconds",
          .categories = {"training", "validation", "checkpoints", "waiting", "lost to restarts"},
          .series = {{"wall time",
                      {split.training / unit, split.validation / unit, split.checkpoints / unit, split.waiting / unit,
                       split.lost / unit}}}};
}

/// Tokens per second of all ranks together, at the pace within updates.
struct TokenRates {
  double source = 0, target = 0;
};

TokenRates token_rates(const RunHistory& history) {
  TokenRates rates;
  for (const RankHistory& rank : history.ranks) {
    double seconds = 0, source = 0, target = 0;
    for (const HistoryStep& step : rank.steps) {
      seconds += step.times.step / 1000;
      source += step.source_tokens;
      target += step.target_tokens;
    }
    if (seconds <= 0) continue;
    rates.source += source / seconds;
    rates.target += target / seconds;
  }
  return rates;
}

}  // namespace

Answer how_long(const RunHistory& history) {
  Answer answer{.question_number = 1, .key = "how_long", .question = "How long did it train?"};
  if (history.first_rank() == nullptr) {
    answer.cannot_be_told(no_steps);
    return answer;
  }
  const TimeSplit split = split_time(history);
  if (!(split.wall > 0)) {
    answer.cannot_be_told("all records have the same time");
    return answer;
  }
  const Quantiles step = quantiles_of(step_times(*history.first_rank()));
  std::vector<std::string> parts;
  const auto add_part = [&](const char* name, double seconds) {
    if (seconds < min_named_share * split.wall) return;
    parts.push_back(fmt::format("{} {} ({})", duration_words(seconds), name, percent_words(seconds / split.wall)));
  };
  add_part("in updates", split.training);
  add_part("in validations", split.validation);
  add_part("in checkpoints", split.checkpoints);
  add_part("waiting", split.waiting);
  add_part("lost to restarts", split.lost);
  answer.text = fmt::format(
      "{} from the first record to the last: {}. An update took {} on average, half of them at most {}, 99 % at most "
      "{}.",
      duration_words(split.wall), fmt::join(parts, ", "), ms_words(step.mean), ms_words(step.median),
      ms_words(step.p99));
  if (split.lost < min_named_share * split.wall) answer.text += " Nothing was lost to restarts.";
  answer.add("wall_s", split.wall, "s");
  answer.add("training_s", split.training, "s");
  answer.add("validation_s", split.validation, "s");
  answer.add("checkpoints_s", split.checkpoints, "s");
  answer.add("waiting_s", split.waiting, "s");
  answer.add("lost_to_restarts_s", split.lost, "s");
  answer.add("updates", static_cast<double>(history.last_update()), "updates");
  answer.add("attempts", static_cast<double>(split.attempts));
  answer.add("step_mean_ms", step.mean, "ms");
  answer.add("step_p50_ms", step.median, "ms");
  answer.add("step_p99_ms", step.p99, "ms");
  answer.plots.push_back(time_plot(split));
  answer.rests_on = {steps_read(history), "times of evaluations, checkpoints and lifecycle events"};
  answer.rests_on.emplace_back("waiting: the start, and pauses between updates that nothing else explains");
  if (split.estimated) answer.rests_on.emplace_back("updates that were not read count with the mean of those read");
  return answer;
}

Answer average_step(const RunHistory& history) {
  Answer answer{.question_number = 10, .key = "average_step", .question = "How long is an average update?"};
  if (history.first_rank() == nullptr) {
    answer.cannot_be_told(no_steps);
    return answer;
  }
  const RankHistory& first = *history.first_rank();
  const Quantiles step = quantiles_of(step_times(first));
  const TokenRates rates = token_rates(history);
  const std::string tokens =
      history.of_sequences()
          ? fmt::format("{} target tokens are trained per second", count_words(rates.target))
          : fmt::format("{} source and {} target tokens are trained per second, {} together", count_words(rates.source),
                        count_words(rates.target), count_words(rates.source + rates.target));
  answer.text = fmt::format(
      "{} on average; half of the updates take at most {}, 95 % at most {}, 99 % at most {}. Within updates, {}. There "
      "is no padding: batches are packed, so the rates with and without padding are equal.",
      ms_words(step.mean), ms_words(step.median), ms_words(step.p95), ms_words(step.p99), tokens);
  const auto ranks = static_cast<double>(history.ranks.size());
  if (history.world_size > static_cast<std::int64_t>(history.ranks.size())) {
    answer.text += fmt::format(" The rates are of {}: the records of the others are not here.",
                               count_words(ranks) + " of " + count_of(static_cast<double>(history.world_size), "rank"));
  }
  answer.add("mean_ms", step.mean, "ms");
  answer.add("p50_ms", step.median, "ms");
  answer.add("p95_ms", step.p95, "ms");
  answer.add("p99_ms", step.p99, "ms");
  if (!history.of_sequences()) answer.add("source_tokens_per_s", rates.source, "tokens/s");
  answer.add("target_tokens_per_s", rates.target, "tokens/s");
  answer.add("tokens_per_s", rates.source + rates.target, "tokens/s");
  answer.rests_on = {steps_read(history), fmt::format("tokens in the step records of {}", count_of(ranks, "rank"))};
  return answer;
}

}  // namespace babelring::insight

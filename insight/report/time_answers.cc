#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "insight/predict/quantiles.h"
#include "insight/report/answers.h"
#include "insight/report/report_text.h"
#include "insight/report/time_split.h"

namespace babelring::insight {
namespace {

constexpr double min_named_share = 0.001;  // of the wall time; smaller parts are in the numbers only
constexpr const char* no_steps = "rank 0 has not reported any update";

std::vector<double> step_times(const RankHistory& rank) {
  std::vector<double> times;
  for (const HistoryStep& step : rank.steps) times.push_back(step.times.step_ms);
  return times;
}

/// The steps that an answer rests on, such as "50,000 step records of rank 0".
std::string steps_read(const RunHistory& history) {
  const auto& steps = history.first_rank()->steps;
  const std::int64_t updates = history.last_update();
  const auto read = static_cast<double>(steps.size());
  if (steps.front().times.update == 1 && updates == static_cast<std::int64_t>(steps.size()))
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
      seconds += step.times.step_ms / 1000;
      source += step.source_tokens;
      target += step.times.target_tokens;
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

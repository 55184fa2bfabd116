#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "insight/predict/fits.h"
#include "insight/report/answers.h"
#include "insight/report/report_text.h"
#include "insight/report/statistics.h"
#include "insight/verdict/verdict.h"
#include "insight/what_if/what_if.h"

namespace babelring::insight {
namespace {

constexpr double well_used = 0.85, half_used = 0.6;
constexpr double good_flop_share = 0.5;  // of the peak: what well-tuned training of Transformers reaches

/// The values of a member over all steps of all ranks, without zeros and unknown ones.
template <class Value>
std::vector<double> known_values(const RunHistory& history, Value value) {
  std::vector<double> values;
  for (const RankHistory& rank : history.ranks) {
    for (const HistoryStep& step : rank.steps) {
      const double each = value(step);
      if (std::isfinite(each) && each > 0) values.push_back(each);
    }
  }
  std::ranges::sort(values);
  return values;
}

template <class Value>
double mean_over(const RunHistory& history, Value value) {
  double sum = 0, count = 0;
  for (const RankHistory& rank : history.ranks) {
    for (const HistoryStep& step : rank.steps) {
      sum += value(step);
      ++count;
    }
  }
  return count > 0 ? sum / count : 0;
}

/// Achieved over measured peak FLOPS, over all ranks with a peak; nothing if no rank has one.
std::optional<double> flop_utilization(const RunHistory& history) {
  double flops = 0, peak = 0;
  for (const RankHistory& rank : history.ranks) {
    if (rank.peak_flops <= 0) continue;
    for (const HistoryStep& step : rank.steps) {
      flops += step.flops;
      peak += rank.peak_flops * step.times.step / 1000;
    }
  }
  if (flops <= 0 || peak <= 0) return std::nullopt;
  return flops / peak;
}

/// The part of the time within updates in which processors or GPUs were busy, over all steps that know it.
std::optional<double> busy_share(const RunHistory& history) {
  double busy_ms = 0, ms = 0;
  for (const RankHistory& rank : history.ranks) {
    for (const HistoryStep& step : rank.steps) {
      if (!(step.busy_fraction > 0)) continue;
      busy_ms += step.busy_fraction * step.times.step;
      ms += step.times.step;
    }
  }
  return ms > 0 ? std::optional(busy_ms / ms) : std::nullopt;
}

/// "127 to 150": the 5th and the 95th percentile of sorted values.
std::string range_words(const std::vector<double>& sorted) {
  const double low = quantile(sorted, 0.05), high = quantile(sorted, 0.95);
  const std::string from = fmt::format("{:.0f}", low), to = fmt::format("{:.0f}", high);
  return from == to ? from : from + " to " + to;
}

std::string percent_range_words(double low, double high) {
  const std::string from = fmt::format("{:.0f}", 100 * low), to = fmt::format("{:.0f}", 100 * high);
  return (from == to ? from : from + " to " + to) + " %";
}

/// Signs of use, as words, and the lowest of their values.
struct UseSigns {
  std::vector<std::string> words;
  double lowest = 1;
  void add(std::string text, double value) {
    words.push_back(std::move(text));
    lowest = std::min(lowest, value);
  }
};

UseSigns use_signs(const RunHistory& history, Answer& answer) {
  UseSigns signs;
  if (const auto busy = busy_share(history)) {
    signs.add(fmt::format("busy {} of the time within updates", percent_words(*busy)), *busy);
    answer.add("busy_fraction", *busy);
  }
  if (const auto use = flop_utilization(history)) {
    signs.add(fmt::format("matmuls reach {} of the measured peak", percent_words(*use)), *use / good_flop_share);
    answer.add("model_flop_utilization", *use);
  }
  const auto power = known_values(history, [](const HistoryStep& step) { return step.power_w; });
  const auto limit = known_values(history, [](const HistoryStep& step) { return step.power_limit_w; });
  if (!power.empty() && !limit.empty()) {
    const double most = limit.back(), low = quantile(power, 0.05) / most, high = quantile(power, 0.95) / most;
    const double median = quantile(power, 0.5) / most;
    signs.add(fmt::format("power {} of {:.0f} W ({})", range_words(power), most, percent_range_words(low, high)),
              median);
    answer.add("power_w", quantile(power, 0.5), "W");
    answer.add("power_limit_w", most, "W");
    answer.add("power_share", median);
  }
  return signs;
}

}  // namespace

Answer fully_used(const RunHistory& history) {
  Answer answer{.question_number = 4, .key = "fully_used", .question = "Were the processors or GPUs fully used?"};
  UseSigns signs = use_signs(history, answer);
  const auto utilization = known_values(history, [](const HistoryStep& step) { return step.utilization_percent; });
  answer.rests_on = {"busy_fraction, flops, power_w and gpu.utilization_percent of step records"};
  if (signs.words.empty()) {
    answer.cannot_be_told("step records have neither a busy fraction nor the power");
    return answer;
  }
  const char* verdict = signs.lowest >= well_used ? "Yes" : signs.lowest >= half_used ? "Mostly" : "No";
  answer.text = fmt::format("{}: {}.", verdict, fmt::join(signs.words, ", "));
  if (!utilization.empty()) {
    const double low = quantile(utilization, 0.05) / 100, high = quantile(utilization, 0.95) / 100;
    answer.add("utilization", quantile(utilization, 0.5) / 100);
    const bool disagree = quantile(utilization, 0.5) / 100 > signs.lowest + 0.2;
    answer.text += fmt::format(
        " The GPU's utilisation says {}{}.", percent_range_words(low, high),
        disagree ? ", which disagrees: it counts the time in which any kernel runs, also one that waits for the network"
                 : "");
  }
  const bool no_peak = std::ranges::none_of(history.ranks, [](const RankHistory& r) { return r.peak_flops > 0; });
  if (no_peak) answer.text += " The peak of the device was not measured, so the model FLOP utilisation is unknown.";
  std::set<std::string> devices;
  for (const RankHistory& rank : history.ranks) {
    if (!rank.device.empty()) devices.insert(rank.device);
  }
  if (!devices.empty()) answer.rests_on.push_back(fmt::format("devices: {}", fmt::join(devices, "; ")));
  return answer;
}

Answer network_bottleneck(const RunHistory& history) {
  Answer answer{.question_number = 5, .key = "network_bottleneck", .question = "Was the network the bottleneck?"};
  if (history.first_rank() == nullptr) {
    answer.cannot_be_told("rank 0 has not reported any update");
    return answer;
  }
  if (history.world_size == 1) {
    answer.text = "No: one rank sends no gradients.";
    answer.rests_on = {"the number of ranks"};
    return answer;
  }
  const verdict::Verdict verdict = verdict::judge(verdict_input(history));
  std::set<std::string> hosts;
  for (const RankHistory& rank : history.ranks) hosts.insert(rank.host);
  const double exposed = mean_over(history, [](const HistoryStep& s) { return s.times.exposed_communication; });
  const double total = mean_over(history, [](const HistoryStep& s) { return s.times.communication; });
  const double step = mean_over(history, [](const HistoryStep& s) { return s.times.step; });
  const double model = mean_over(history, [](const HistoryStep& s) { return s.communication_bytes; });
  const double sent = mean_over(history, [](const HistoryStep& s) { return s.network_tx_bytes; });
  const double received = mean_over(history, [](const HistoryStep& s) { return s.network_rx_bytes; });
  const auto link = known_values(history, [](const HistoryStep& s) { return s.network_link_bytes_per_second; });
  const bool bound = verdict.kind == verdict::Kind::network_bound;
  const std::string sums =
      exposed > total
          ? fmt::format(
                "; a sum is in progress for {}, the rest of the wait lies around the sums, as for a slower rank",
                ms_words(total))
          : fmt::format(", which are in progress for {}", ms_words(total));
  answer.text = fmt::format("{}: of the {} of an update, ranks wait {} ({}) for gradient sums{}.",
                            bound                                    ? "Yes"
                            : verdict.kind == verdict::Kind::unknown ? "Not known"
                                                                     : "No",
                            ms_words(step), ms_words(exposed), percent_words(exposed / step), sums);
  if (hosts.size() > 1) {
    answer.text += fmt::format(
        " A rank sends {} for an update by the algorithm; the host's interface counted {} sent and {} received in it.",
        megabytes_words(model), megabytes_words(sent), megabytes_words(received));
  } else {
    answer.text += " All ranks here run on one host, so gradients go through its memory.";
  }
  if (!link.empty() && hosts.size() > 1) {
    answer.text += fmt::format(" The link carries {} a second in each direction.", megabytes_words(link.front()));
    answer.add("link_bytes_per_s", link.front(), "bytes/s");
  }
  answer.text += fmt::format(" The verdict on the last updates: {}.", verdict.sentence);
  answer.add("step_ms", step, "ms");
  answer.add("exposed_communication_ms", exposed, "ms");
  answer.add("communication_ms", total, "ms");
  answer.add("model_bytes_of_rank", model, "bytes");
  answer.add("interface_sent_bytes", sent, "bytes");
  answer.add("interface_received_bytes", received, "bytes");
  answer.add("send_bytes_per_s", step > 0 ? sent / step * 1000 : 0, "bytes/s");
  answer.rests_on = {fmt::format("step records of {}", count_of(static_cast<double>(history.ranks.size()), "rank")),
                     "waiting for a slower rank counts as waiting for its gradients"};
  return answer;
}

namespace {

struct HostSteps {
  std::vector<double> step, exposed, rate;
  bool sends = false;  // otherwise the traffic is of other programs
};

/// The steps of the first rank of each host.
std::map<std::string, HostSteps> steps_by_host(const RunHistory& history) {
  std::map<std::string, HostSteps> hosts;
  for (const RankHistory& rank : history.ranks) {
    const auto [found, is_new] = hosts.try_emplace(rank.host);
    if (!is_new) continue;
    for (const HistoryStep& step : rank.steps) {
      if (step.times.step <= 0) continue;
      found->second.step.push_back(step.times.step);
      found->second.exposed.push_back(step.times.exposed_communication);
      found->second.rate.push_back(step.network_tx_bytes / step.times.step * 1000);
      if (step.communication_bytes > 0) found->second.sends = true;
    }
  }
  return hosts;
}

std::string correlation_words(const std::optional<Estimate>& estimate) {
  if (!estimate) return "–";
  return fmt::format("{:+.2f} ({:+.2f} to {:+.2f})", estimate->value, estimate->low, estimate->high);
}

AnswerTable correlation_table(const std::map<std::string, HostSteps>& hosts) {
  AnswerTable table{
      "Correlation of an update's time, with 95 % intervals", {"host", "with", "updates", "Pearson", "Spearman"}, {}};
  for (const auto& [host, steps] : hosts) {
    const std::string count = count_words(static_cast<double>(steps.step.size()));
    table.rows.push_back({host, "exposed communication", count, correlation_words(pearson(steps.step, steps.exposed)),
                          correlation_words(spearman(steps.step, steps.exposed))});
    if (!steps.sends) continue;
    table.rows.push_back({host, "bytes sent per second", count, correlation_words(pearson(steps.step, steps.rate)),
                          correlation_words(spearman(steps.step, steps.rate))});
  }
  return table;
}

/// Predicted updates at other rates of the link between hosts.
void add_predictions(const RunHistory& history, Answer& answer) {
  const WhatIfRun run{.input = verdict_input(history)};
  Plot plot{.kind = Plot::Kind::bars, .title = "Predicted update by the link between hosts", .y_label = "ms"};
  std::vector<double> steps;
  std::vector<std::string> words;
  double error = 0;
  for (const double gbit : {1, 10, 25, 100}) {
    const auto result = what_if(run, {.link_gbit = gbit});
    if (!result) {
      answer.text += fmt::format(" Predictions for other links cannot be made: {}.", result.error());
      return;
    }
    error = result->baseline_error;
    if (!result->fits()) {
      answer.text += fmt::format(
          " The model of the network does not fit this run (it is wrong by {:+.0f} % for the run "
          "as it is), so no other link is predicted.",
          100 * error);
      return;
    }
    const double ms = result->predicted.prediction.step_ms.median;
    steps.push_back(ms);
    words.push_back(fmt::format("{} at {:.0f} Gbit/s", ms_words(ms), gbit));
    plot.categories.push_back(fmt::format("{:.0f} Gbit/s", gbit));
    answer.add(fmt::format("predicted_ms_at_{:.0f}_gbit", gbit), ms, "ms");
  }
  answer.text += fmt::format(" Predicted update: {} (the prediction for the run as it is differs by {:+.1f} %).",
                             fmt::join(words, ", "), 100 * error);
  plot.series = {{"predicted update", steps, true}};
  answer.plots.push_back(std::move(plot));
}

}  // namespace

Answer step_and_network(const RunHistory& history) {
  Answer answer{.question_number = 11,
                .key = "step_and_network",
                .question = "How is the time of an update related to the use of the network?"};
  const auto hosts = steps_by_host(history);
  if (hosts.empty() || history.world_size == 1) {
    answer.cannot_be_told(hosts.empty() ? "no update was reported" : "one rank uses no network");
    return answer;
  }
  const HostSteps& first = hosts.begin()->second;
  const auto exposed = pearson(first.step, first.exposed);
  const auto rate = first.sends ? pearson(first.step, first.rate) : std::nullopt;
  if (!exposed) {
    answer.cannot_be_told(first.step.size() < 4 ? "a correlation needs four updates"
                                                : "the time of updates or their communication does not vary");
  } else {
    answer.text = fmt::format(
        "On {}, an update's time and its exposed communication correlate by {} (Pearson, 95 % interval, {}){}.",
        hosts.begin()->first, correlation_words(exposed), count_of(static_cast<double>(first.step.size()), "update"),
        rate ? fmt::format("; with the bytes sent per second by {}", correlation_words(rate)) : "");
    answer.add("pearson_exposed", exposed->value);
    answer.add("pearson_exposed_low", exposed->low);
    answer.add("pearson_exposed_high", exposed->high);
    if (rate) answer.add("pearson_bytes_per_s", rate->value);
    if (const auto ranks = spearman(first.step, first.exposed)) answer.add("spearman_exposed", ranks->value);
    answer.tables.push_back(correlation_table(hosts));
  }
  if (hosts.size() > 1) {
    add_predictions(history, answer);
  } else {
    answer.text += " All ranks here run on one host, so another network would change nothing.";
  }
  answer.rests_on = {"step records of the first rank of each host; updates count as independent"};
  return answer;
}

}  // namespace babelring::insight

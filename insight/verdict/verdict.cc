#include "insight/verdict/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "insight/verdict/findings.h"

namespace babelring::verdict {
namespace {

constexpr std::array losses = {Kind::network_bound, Kind::straggler_bound, Kind::data_bound, Kind::evaluation_bound,
                               Kind::checkpoint_bound};

bool is_pause(Kind kind) {
  return kind == Kind::evaluation_bound || kind == Kind::checkpoint_bound;
}

/// The largest loss if it reaches bound_fraction. Otherwise healthy or compute_bound, by how well the run computes.
Kind choose(const Findings& findings) {
  const auto fraction = [&](Kind kind) { return findings.fraction(findings.ms_of(kind)); };
  const Kind greatest =
      *std::max_element(losses.begin(), losses.end(), [&](Kind a, Kind b) { return fraction(a) < fraction(b); });
  const bool bound = fraction(greatest) >= bound_fraction;
  // If other programs take the processors, waits for data, other ranks and local all-reduce are consequences of that.
  const bool elsewhere = is_pause(greatest) || (greatest == Kind::network_bound && findings.traffic.hosts > 1);
  if (findings.contended != nullptr && !(bound && elsewhere)) return Kind::host_contended;
  if (bound) return greatest;
  const bool busy = !(findings.busy_fraction < healthy_busy);  // unknown counts as busy
  const bool large = findings.fraction(findings.times.optimizer) <= healthy_optimizer;
  const bool healthy = findings.fraction(findings.times.compute()) >= healthy_fraction && busy && large &&
                       !findings.skips_many_updates();
  return healthy ? Kind::healthy : Kind::compute_bound;
}

double ms_of(const UpdateSplit& update, Kind kind) {
  switch (kind) {
    case Kind::network_bound:
      return update.times.exposed_communication;
    case Kind::straggler_bound:
      return update.straggler_ms;
    case Kind::data_bound:
      return update.times.data;
    default:
      return update.times.compute();
  }
}

/// The fraction of the window's updates that would give the same verdict on their own.
double agreement(Kind kind, const Findings& findings, const std::vector<UpdateSplit>& window) {
  if (is_pause(kind)) {
    const auto& cost = kind == Kind::evaluation_bound ? findings.evaluation : findings.checkpoint;
    return static_cast<double>(cost.count) / static_cast<double>(cost.count + 1);
  }
  if (kind == Kind::host_contended) return 1;  // does not depend on single updates
  const auto agrees = [&](const UpdateSplit& update) {
    const double mine = ms_of(update, kind), total = update.total_ms();
    if (kind == Kind::healthy) return mine >= (healthy_fraction - 0.1) * total;
    const double others = std::max({update.times.exposed_communication, update.straggler_ms, update.times.data});
    if (kind == Kind::compute_bound) return mine >= others;
    return mine >= bound_fraction / 2 * total && mine >= others;
  };
  return static_cast<double>(std::count_if(window.begin(), window.end(), agrees)) / static_cast<double>(window.size());
}

double confidence_of(Kind kind, const Input& input, const Findings& findings, const std::vector<UpdateSplit>& window) {
  const double sample = std::min(1.0, std::sqrt(static_cast<double>(window.size()) / 40));
  const auto world = static_cast<double>(std::max<std::int64_t>(input.facts.world_size, 1));
  const double seen = std::min(1.0, static_cast<double>(input.ranks.size()) / world);
  // The closer a fraction is to its threshold, the less certain the verdict.
  double margin = 1;
  if (kind == Kind::healthy) {
    margin = (findings.fraction(findings.times.compute()) - healthy_fraction) / (1 - healthy_fraction);
  } else if (kind == Kind::host_contended) {
    margin = 1 - findings.busy_fraction / contended_busy;
  } else if (kind != Kind::compute_bound) {
    margin = findings.fraction(findings.ms_of(kind)) / bound_fraction - 1;
  }
  const double clear = 0.6 + 0.4 * std::clamp(margin, 0.0, 1.0);
  return std::clamp(sample * agreement(kind, findings, window) * seen * clear, 0.05, 0.99);
}

Level level_of(Kind kind, const Findings& findings) {
  if (kind != Kind::healthy && kind != Kind::compute_bound) return Level::warning;
  return findings.busy_fraction < contended_busy || findings.skips_many_updates() ? Level::warning : Level::good;
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::vector<Evidence> evidence_of(const Input& input, const Findings& findings) {
  std::vector<Evidence> evidence;
  const auto part = [&](const char* key, double ms) { evidence.push_back({key, ms, "ms", findings.fraction(ms)}); };
  const auto number = [&](const char* key, double value, const char* unit) {
    if (std::isfinite(value)) evidence.push_back({key, value, unit, unknown_value});
  };
  part("update_ms", findings.total_ms());
  part("data_ms", findings.times.data);
  part("forward_ms", findings.times.forward);
  part("backward_ms", findings.times.backward);
  part("optimizer_ms", findings.times.optimizer);
  part("network_wait_ms", findings.times.exposed_communication);
  part("straggler_wait_ms", findings.straggler_ms);
  part("evaluation_ms", findings.evaluation.ms_per_update);
  part("checkpoint_ms", findings.checkpoint.ms_per_update);
  part("other_ms", findings.times.other);
  number("communication_ms", findings.traffic.communication_ms, "ms");
  if (findings.traffic.bytes_per_second > 0) number("host_tx", findings.traffic.bytes_per_second, "bytes/s");
  if (findings.traffic.hosts > 1) number("link_share", findings.traffic.link_share, "of the link's rate");
  if (const BucketSize& bucket = input.facts.bucket; findings.traffic.hosts > 1 && bucket.mb > 0) {
    number(bucket.source == BucketSize::Source::assumed ? "assumed_bucket" : "bucket", bucket.mb, "MB");
  }
  number("busy_fraction", findings.busy_fraction, "");
  if (findings.contended != nullptr) {
    number("load", findings.contended->load, "");
    number("processors", static_cast<double>(findings.contended->processors), "");
  }
  if (findings.straggler_ms > 0) {
    number("last_rank", static_cast<double>(input.ranks[findings.late_rank].rank), "rank");
    number("last_rank_updates", findings.late_fraction, "of updates");
    if (findings.host_is_late) number("last_host_updates", findings.late_host_fraction, "of updates");
  }
  number("updates", static_cast<double>(findings.updates), "updates");
  if (findings.skipped > 0) number("skipped_updates", static_cast<double>(findings.skipped), "updates");
  number("ranks", static_cast<double>(input.ranks.size()), "ranks");
  return evidence;
}

Verdict unknown(const std::string& missing, const std::string& advice) {
  Verdict verdict;
  verdict.sentence = "unknown: " + missing;
  verdict.advice = advice;
  return verdict;
}

/// An `unknown` verdict that says what is missing, or one with an empty sentence if nothing is.
Verdict missing(const Input& input, const std::vector<UpdateSplit>& window) {
  std::size_t most = 0, least = SIZE_MAX;
  bool timed = false;
  for (const RankSteps& rank : input.ranks) {
    most = std::max(most, rank.steps.size());
    least = std::min(least, rank.steps.size());
    for (const Step& step : rank.steps) timed = timed || step.times.forward + step.times.backward > 0;
  }
  if (most == 0 && input.facts.attempt > 1) {
    return unknown(fmt::format("attempt {} has not reported an update", input.facts.attempt),
                   "see the earlier attempts in the report");
  }
  if (most == 0) return unknown("no update has been reported yet", "wait for the first updates");
  if (!timed) {
    return unknown("step records have no phase times",
                   "report data_ms, forward_ms, backward_ms, exposed_communication_ms and optimizer_ms");
  }
  const auto ranks = static_cast<std::int64_t>(input.ranks.size());
  if (ranks * 2 < input.facts.world_size) {
    return unknown(fmt::format("{} of {} ranks have reported", ranks, input.facts.world_size),
                   "check whether the other ranks can reach the server");
  }
  if (window.size() >= min_updates) return {};
  return unknown(fmt::format("all ranks have reported {} update{} of attempt {} after warm-up; {} are needed",
                             window.size(), window.size() == 1 ? "" : "s", input.facts.attempt, min_updates),
                 least + 2 * min_updates < most
                     ? "one rank reports far fewer updates than the others: check whether it can reach the server"
                     : "wait for more updates");
}

}  // namespace

HealthPart judge_hosts(const std::vector<HostLoad>& hosts) {
  if (const HostLoad* host = contended_host(hosts)) {
    return {.topic = Topic::hosts,
            .level = Level::warning,
            .text = capitalised(load_of(*host, hosts.size())),
            .action = stop_others_on(*host)};
  }
  const auto busiest = std::max_element(hosts.begin(), hosts.end(), [](const HostLoad& a, const HostLoad& b) {
    return a.load * static_cast<double>(b.processors) < b.load * static_cast<double>(a.processors);
  });
  return {.topic = Topic::hosts,
          .level = Level::good,
          .text = fmt::format("Load {:.1f} on {} processors of {}: other programs do not slow the run", busiest->load,
                              busiest->processors, busiest->host)};
}

HealthPart health_part(const Verdict& verdict) {
  return {.topic = verdict.kind == Kind::host_contended ? Topic::hosts : Topic::speed,
          .level = verdict.level,
          .text = capitalised(verdict.sentence),
          .action = verdict.level == Level::warning ? capitalised(verdict.advice) : ""};
}

Verdict judge(const Input& input) {
  const std::vector<UpdateSplit> window = split_window(input);
  Verdict verdict = missing(input, window);
  if (!window.empty()) {
    verdict.first_update = window.front().update;
    verdict.last_update = window.back().update;
  }
  if (!verdict.sentence.empty()) return verdict;
  const Findings findings = find(input, window);
  verdict.kind = choose(findings);
  verdict.level = level_of(verdict.kind, findings);
  verdict.sentence = sentence_of(verdict.kind, input, findings);
  verdict.advice = advice_of(verdict.kind, input, findings);
  verdict.confidence = confidence_of(verdict.kind, input, findings, window);
  verdict.evidence = evidence_of(input, findings);
  return verdict;
}

}  // namespace babelring::verdict

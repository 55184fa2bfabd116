#include "insight/verdict/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.h"

namespace babelring::verdict {
namespace {

/// One decimal below 10, thousands separators above: 9.4, 42, 1,060.
std::string amount(double value) {
  if (value < 9.95) return fmt::format("{:.1f}", value);
  return grouped(value);
}

/// An estimate, with two significant digits.
std::string about(double ms) {
  if (ms < 9.95) return "about " + fmt::format("{:.1f} ms", ms);
  const double unit = std::pow(10, std::floor(std::log10(ms)) - 1);
  return "about " + amount(std::round(ms / unit) * unit) + " ms";
}

std::string percent(double fraction) {
  return fmt::format("{:.0f} %", 100 * fraction);
}

std::string of_update(const Findings& findings, double ms) {
  return fmt::format("({} of {} ms)", amount(ms), amount(findings.total_ms()));
}

std::string name_of(const RankSteps& rank) {
  return rank.host.empty() ? fmt::format("rank {}", rank.rank) : fmt::format("rank {} on {}", rank.rank, rank.host);
}

/// A change that would shorten the wait for all-reduce.
struct Remedy {
  std::string change, advice;
  insight::WhatIfChange predicted;  // that its saving is predicted from
};

Remedy network_remedy(const Input& input, const Findings& findings) {
  const Traffic& traffic = findings.traffic;
  const Facts& facts = input.facts;
  const insight::WhatIfChange double_update{.accumulate = 2};
  // The worker's own choice fits its link, so only a configured size is worth changing.
  const bool configured = facts.bucket.source == BucketSize::Source::configured;
  if (configured && traffic.latency_fraction >= 0.5 && facts.bucket.mb < host_bucket_mb) {
    return {"larger buckets",
            fmt::format("set communication.bucket_mb={:g}: {:.0f} all-reduces per update are limited by latency, not "
                        "bandwidth",
                        host_bucket_mb, traffic.collectives),
            {.bucket_mb = host_bucket_mb}};
  }
  if (traffic.waits_for_latency()) {
    return {"doubling data.tokens_per_update",
            "raise data.tokens_per_update so that each all-reduce covers more tokens, or use fewer ranks with more "
            "training.threads each; every rank adds latency, and sending fewer bytes would not help",
            double_update};
  }
  const GradientWire wire = insight::configured_wire(facts.gradient_wire);
  if (traffic.hosts > 1 && wire == GradientWire::f32) {
    return {
        "bf16 gradients",
        "set communication.gradient_wire=bf16, which halves the bytes, or raise data.tokens_per_update so that each "
        "all-reduce covers more tokens",
        {.wire = GradientWire::bf16}};
  }
  return {"doubling data.tokens_per_update",
          traffic.hosts > 1
              ? fmt::format(
                    "raise data.tokens_per_update so that each all-reduce covers more tokens, {}or use a faster "
                    "link",
                    wire == GradientWire::bf16 ? "set communication.gradient_wire=int8, which halves the bytes again, "
                                               : "")
              : "raise data.tokens_per_update, or use fewer ranks with more training.threads each: ranks on one "
                "host exchange gradients through its memory",
          double_update};
}

/// " and 20 % for rank 37 on node05", where waiting for other ranks counts beside waiting for the network.
std::string also_waits(const Input& input, const Findings& findings) {
  const double part = findings.fraction(findings.straggler_ms);
  if (part < notable_fraction) return "";
  const std::string whom = findings.host_is_late                      ? findings.late_host
                           : findings.one_is_late(input.ranks.size()) ? name_of(input.ranks[findings.late_rank])
                                                                      : "other ranks in turns";
  return fmt::format(" and {} for {}", percent(part), whom);
}

std::string network_sentence(const Input& input, const Findings& findings) {
  const Remedy remedy = network_remedy(input, findings);
  const std::string latency =
      findings.traffic.waits_for_latency()
          ? fmt::format(" at {} of {}: latency, not bandwidth, is the limit", percent(findings.traffic.link_share),
                        findings.traffic.link_known ? "the link's rate" : "1 Gbit/s (no host reports its link's rate)")
          : "";
  const std::optional<double> saving = saving_ms(input, remedy.predicted);
  return fmt::format("network-bound: {} of each step waits for all-reduce {}{}{}; {} would {}",
                     percent(findings.fraction(findings.times.exposed_communication)),
                     of_update(findings, findings.times.exposed_communication), also_waits(input, findings), latency,
                     remedy.change, saving ? "save " + about(*saving) : "shorten that");
}

std::string straggler_sentence(const Input& input, const Findings& findings) {
  const std::string numbers = of_update(findings, findings.straggler_ms);
  const std::string fraction = percent(findings.fraction(findings.straggler_ms));
  if (findings.host_is_late) {
    return fmt::format(
        "straggler-bound: the other ranks wait for {} for {} of each step {}: its {} ranks are last in {} of {} "
        "updates",
        findings.late_host, fraction, numbers, findings.late_host_ranks, findings.late_host_updates, findings.updates);
  }
  if (!findings.one_is_late(input.ranks.size())) {
    return fmt::format("straggler-bound: ranks wait for each other in turns for {} of each step {}", fraction, numbers);
  }
  return fmt::format("straggler-bound: the other ranks wait for {} for {} of each step {}{}",
                     name_of(input.ranks[findings.late_rank]), fraction, numbers,
                     findings.late_with_data ? "; its batches arrive late" : "");
}

std::string straggler_advice(const Input& input, const Findings& findings) {
  if (findings.host_is_late) {
    return fmt::format(
        "check {} for other programs, overheating, or fewer processors or threads; at the speed of the others it "
        "would save {} per step; if it stays slow, data.balance=measured gives its ranks less of each update",
        findings.late_host, about(findings.straggler_ms));
  }
  if (!findings.one_is_late(input.ranks.size())) {
    return "no single rank is slow; check the hosts for other load, or raise data.tokens_per_update, which evens out "
           "the work per rank";
  }
  const RankSteps& rank = input.ranks[findings.late_rank];
  return fmt::format("check {} for {}; at the speed of the others it would save {} per step", name_of(rank),
                     findings.late_with_data ? "a slow disk or too few processors to prepare its batches"
                                             : "other programs, overheating, or fewer processors or threads",
                     about(findings.straggler_ms));
}

std::string pause_sentence(const char* name, const char* activity, const PauseCost& cost, const Findings& findings) {
  return fmt::format("{}-bound: {} of the time goes into {} ({:.1f} s each, every {:.0f} updates)", name,
                     percent(findings.fraction(cost.ms_per_update)), activity, cost.ms_each / 1000,
                     cost.updates_between);
}

std::string compute_sentence(const Findings& findings) {
  const std::string head =
      fmt::format("compute-bound: {} of each step is compute {}", percent(findings.fraction(findings.times.compute())),
                  of_update(findings, findings.times.compute()));
  if (findings.busy_fraction < healthy_busy) {
    return head + fmt::format(", but its threads are busy only {} of the time", percent(findings.busy_fraction));
  }
  if (findings.fraction(findings.times.optimizer) > healthy_optimizer) {
    return head + fmt::format(", of which the optimizer takes {} ms", amount(findings.times.optimizer));
  }
  return head +
         fmt::format("; waiting takes {} for data, {} for all-reduce, {} for other ranks; everything else takes {}",
                     percent(findings.fraction(findings.times.data)),
                     percent(findings.fraction(findings.times.exposed_communication)),
                     percent(findings.fraction(findings.straggler_ms)),
                     percent(findings.fraction(findings.times.other)));
}

std::string compute_advice(const Findings& findings) {
  if (findings.fraction(findings.times.optimizer) > healthy_optimizer) {
    return fmt::format(
        "raise data.tokens_per_update: the optimizer costs the same for any number of tokens; doubling them would save "
        "{} per step",
        about(findings.times.optimizer / 2));
  }
  if (findings.busy_fraction < healthy_busy) {
    return "raise data.micro_batch_tokens or data.tokens_per_update, so that each matmul is large enough for all "
           "threads, or give each rank fewer training.threads";
  }
  if (findings.fraction(findings.times.other) >= bound_fraction) {
    return "a large part of each step is outside the measured phases; check training.digest_every and other load on "
           "the hosts";
  }
  return "there is no single bottleneck; more or faster processors would speed it up";
}

}  // namespace

std::string_view to_string(Kind kind) {
  constexpr std::array<std::string_view, 9> names = {"unknown",          "healthy",          "compute_bound",
                                                     "network_bound",    "data_bound",       "straggler_bound",
                                                     "checkpoint_bound", "evaluation_bound", "host_contended"};
  return names[static_cast<std::size_t>(kind)];
}

bool Findings::one_is_late(std::size_t ranks) const {
  // Each of two equal ranks is last in half of the updates. With 20 or more updates, 0.75 is not chance.
  return late_fraction >= std::max(0.6, 1.5 / static_cast<double>(std::max<std::size_t>(ranks, 1)));
}

double Findings::ms_of(Kind kind) const {
  switch (kind) {
    case Kind::network_bound:
      return times.exposed_communication;
    case Kind::data_bound:
      return times.data;
    case Kind::straggler_bound:
      return straggler_ms;
    case Kind::checkpoint_bound:
      return checkpoint.ms_per_update;
    case Kind::evaluation_bound:
      return evaluation.ms_per_update;
    case Kind::healthy:
    case Kind::compute_bound:
    case Kind::host_contended:
      return times.compute();
    case Kind::unknown:
      break;
  }
  return 0;
}

std::string load_of(const HostLoad& host, std::size_t hosts) {
  return fmt::format("{}load {:.1f} on {} processor{}: other programs take most of them",
                     hosts > 1 ? host.host + " has " : "", host.load, host.processors, host.processors == 1 ? "" : "s");
}

std::string stop_others_on(const HostLoad& host) {
  return fmt::format("stop other programs on {}, or train on a host with free processors", host.host);
}

namespace {

/// Finds the host whose ranks together are last most often.
void find_late_host(const Input& input, const std::map<std::size_t, std::size_t>& last_place, Findings& findings) {
  std::map<std::string, std::size_t> last_host, ranks;
  for (const RankSteps& rank : input.ranks) ++ranks[rank.host];
  for (const auto& [place, updates] : last_place) last_host[input.ranks[place].host] += updates;
  const auto most = std::max_element(last_host.begin(), last_host.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  findings.late_host = most->first;
  findings.late_host_updates = most->second;
  findings.late_host_ranks = ranks[most->first];
  findings.late_host_fraction = static_cast<double>(most->second) / static_cast<double>(findings.updates);
  // Among equally fast hosts, each is last in proportion to its number of ranks.
  const double usual = static_cast<double>(findings.late_host_ranks) / static_cast<double>(input.ranks.size());
  const bool late = findings.late_host_fraction >= std::clamp(1.5 * usual, 0.6, 0.95);
  const bool rank_alone = findings.late_fraction > 0.8 * findings.late_host_fraction;
  findings.host_is_late =
      ranks.size() > 1 && !findings.late_host.empty() && findings.late_host_ranks > 1 && late && !rank_alone;
}

}  // namespace

Findings find(const Input& input, const std::vector<UpdateSplit>& window) {
  Findings findings;
  findings.times = median_times(window);
  findings.times.other += between_steps_ms(input);
  findings.straggler_ms = median_over(window, [](const UpdateSplit& update) { return update.straggler_ms; });
  findings.evaluation = pause_cost(input, Pause::Kind::evaluation);
  findings.checkpoint = pause_cost(input, Pause::Kind::checkpoint);
  findings.updates = window.size();

  std::map<std::size_t, std::size_t> last_place, with_data;
  for (const UpdateSplit& update : window) {
    findings.skipped += update.skipped ? 1 : 0;
    ++last_place[update.last_rank];
    with_data[update.last_rank] += update.last_was_data ? 1 : 0;
  }
  const auto most = std::max_element(last_place.begin(), last_place.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  findings.late_rank = most->first;
  findings.late_fraction = static_cast<double>(most->second) / static_cast<double>(window.size());
  findings.late_with_data = with_data[most->first] * 2 > most->second;
  find_late_host(input, last_place, findings);

  std::vector<double> busy;
  for (const RankSteps& rank : input.ranks) {
    for (const Step& step : rank.steps) {
      if (step.update >= window.front().update && step.busy_fraction > 0) busy.push_back(step.busy_fraction);
    }
  }
  if (!busy.empty()) findings.busy_fraction = median(std::move(busy));
  if (findings.busy_fraction < contended_busy) findings.contended = contended_host(input.hosts);
  findings.traffic = traffic_of(input, findings.times.exposed_communication, findings.times.communication);
  return findings;
}

std::string sentence_of(Kind kind, const Input& input, const Findings& findings) {
  if (findings.skips_many_updates()) {
    Findings rest = findings;
    rest.skipped = 0;
    return fmt::format("{} of {} updates were skipped, so speed is secondary; {}", findings.skipped, findings.updates,
                       sentence_of(kind, input, rest));
  }
  switch (kind) {
    case Kind::network_bound:
      return network_sentence(input, findings);
    case Kind::straggler_bound:
      return straggler_sentence(input, findings);
    case Kind::data_bound:
      return fmt::format("data-bound: {} of each step waits for its batch {}",
                         percent(findings.fraction(findings.times.data)), of_update(findings, findings.times.data));
    case Kind::evaluation_bound:
      return pause_sentence("evaluation", "evaluations", findings.evaluation, findings);
    case Kind::checkpoint_bound:
      return pause_sentence("checkpoint", "checkpoints", findings.checkpoint, findings);
    case Kind::healthy:
      return fmt::format("healthy: {} of each step is compute {}", percent(findings.fraction(findings.times.compute())),
                         of_update(findings, findings.times.compute()));
    case Kind::compute_bound:
      return compute_sentence(findings);
    case Kind::host_contended:
      return fmt::format("host-contended: {}; the run's threads are busy only {} of the time",
                         load_of(*findings.contended, input.hosts.size()), percent(findings.busy_fraction));
    case Kind::unknown:
      break;
  }
  return "unknown";
}

std::string advice_of(Kind kind, const Input& input, const Findings& findings) {
  std::string advice;
  if (findings.skipped > 0) {
    advice = fmt::format(
        "{} of {} updates were skipped because their gradient was not finite: lower "
        "optimizer.learning_rate first; ",
        findings.skipped, findings.updates);
  }
  switch (kind) {
    case Kind::network_bound:
      return advice + network_remedy(input, findings).advice;
    case Kind::straggler_bound:
      return advice + straggler_advice(input, findings);
    case Kind::data_bound:
      return advice + fmt::format(
                          "raise data.prefetch, put data.folder on a local disk, or leave a processor free for the "
                          "threads that prepare batches: saves up to {} ms per step",
                          amount(findings.times.data));
    case Kind::evaluation_bound:
      return advice + fmt::format(
                          "evaluate half as often (validation.every, bleu_every), or lower validation.max_sentences "
                          "or beam: saves {} per update",
                          about(findings.evaluation.ms_per_update / 2));
    case Kind::checkpoint_bound:
      return advice + fmt::format("save half as often (checkpoint.every) or to a faster disk: saves {} per update",
                                  about(findings.checkpoint.ms_per_update / 2));
    case Kind::compute_bound:
      return advice + compute_advice(findings);
    case Kind::host_contended:
      return advice + stop_others_on(*findings.contended);
    case Kind::healthy:
      return advice + (advice.empty() ? "nothing to do" : "otherwise healthy");
    case Kind::unknown:
      break;
  }
  return advice;
}

}  // namespace babelring::verdict

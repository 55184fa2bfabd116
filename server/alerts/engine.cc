#include "server/alerts/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"

namespace babelring::alerts {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::int64_t learning_updates = 20;  // updates before the means of rate and loss count as usual
constexpr double fast = 0.1, slow = 0.02;      // weights of the newest update in the two means
constexpr std::int64_t bad_window = 100;       // updates
constexpr Seconds longest_usual_wait{300};     // an evaluation takes no longer
constexpr std::size_t max_digests = 16;        // max updates with digests kept for comparison

std::string count(std::int64_t number) {
  return grouped(static_cast<double>(number));
}

std::string rank_name(std::int64_t rank, const std::string& host) {
  return fmt::format("rank {}{}", rank, host.empty() ? "" : " on " + host);
}

/// Updates an exponential moving average that starts as a plain mean.
void mix(double& mean, double value, double weight, std::int64_t count) {
  mean += (value - mean) * std::max(weight, 1.0 / static_cast<double>(std::max<std::int64_t>(count, 1)));
}

double seconds_since(Engine::Time then, Engine::Time now) {
  return Seconds(now - then).count();
}

}  // namespace

void Engine::adopt(const std::string& rule, const std::string& run, const std::string& subject) {
  states_[{rule, run, subject}].open = true;
}

Engine::Run* Engine::note_life(const std::string& run, std::int64_t attempt, std::int64_t rank, const std::string& host,
                               Time now) {
  Run& known = runs_[run];
  if (attempt < known.attempt) return nullptr;
  if (attempt > known.attempt) {
    known = Run{.owner = known.owner, .attempt = attempt, .updated = now};  // speed and ranks may have changed
  }
  Rank& of_rank = known.ranks[rank];
  of_rank.heard = now;
  if (!host.empty()) of_rank.host = host;
  return &known;
}

void Engine::heard(const std::string& run, std::int64_t attempt, std::int64_t rank, const std::string& host, Time now) {
  if (Run* known = note_life(run, attempt, rank, host, now)) known->beats = true;
}

void Engine::observe(const RecordHeader& header, const RecordBody& body, Time now) {
  Run* known = note_life(header.run, header.attempt, header.rank, header.host, now);
  if (known == nullptr) return;
  Run& run = *known;
  Rank& rank = run.ranks[header.rank];
  const auto* life = std::get_if<LifecycleRecord>(&body);
  if (life != nullptr && life->event == "rewound") observe_rewind(run, rank, life->update, now);
  if (const auto* eval = std::get_if<EvalRecord>(&body)) observe_eval(run, *eval);
  const auto* step = std::get_if<StepRecord>(&body);
  if (step == nullptr || rank.rewinds != run.rewinds) return;
  compare_weights(run, header, *step);
  observe_step(run, *step, now);
}

void Engine::observe_rewind(Run& run, Rank& rank, std::int64_t update, Time now) {
  if (++rank.rewinds <= run.rewinds) return;  // another rank already reported it
  run.rewinds = rank.rewinds;
  run.update = update;
  run.updated = now;
  run.bad_updates.clear();
  run.bad_evaluation.clear();
  run.weights.clear();
}

/// All ranks must have bit-identical weights after an update. They report the same update at different times.
void Engine::compare_weights(Run& run, const RecordHeader& header, const StepRecord& step) {
  if (step.weights_digest.empty()) return;
  if (run.weights.size() >= max_digests && !run.weights.contains(step.update)) run.weights.erase(run.weights.begin());
  const auto [entry, first] = run.weights.try_emplace(
      step.update, Weights{.rank = header.rank, .host = header.host, .digest = step.weights_digest});
  Weights& known = entry->second;
  if (first || known.rank == header.rank) {
    if (!first) known.digest = step.weights_digest;  // trained again, after a rewind
    return;
  }
  run.compared += known.compared ? 0 : 1;
  known.compared = true;
  if (known.digest == step.weights_digest || known.differ) return;
  known.differ = true;
  ++run.differing;
  if (run.differ_message.empty()) {
    run.differ_message = fmt::format(
        "after update {} the weights of {} differ from those of {} (digests {:.8} and {:.8})", count(step.update),
        rank_name(header.rank, header.host), rank_name(known.rank, known.host), step.weights_digest, known.digest);
  }
}

void Engine::observe_eval(Run& run, const EvalRecord& eval) {
  run.bad_evaluation = std::isfinite(eval.loss) || eval.loss_unknown
                           ? ""
                           : fmt::format("the evaluation after update {} has loss {}", count(eval.update), eval.loss);
}

void Engine::observe_step(Run& run, const StepRecord& step, Time now) {
  if (step.update <= run.update) return;  // another rank already reported it
  run.update = step.update;
  if (run.updates > 0)
    run.longest_wait = std::min(std::max(run.longest_wait, Seconds(now - run.updated)), longest_usual_wait);
  run.updated = now;
  ++run.updates;
  if (!std::isfinite(step.loss) || step.skipped) {
    run.bad_updates.push_back(step.update);
    run.bad_message = step.skipped
                          ? fmt::format("update {} was skipped: its gradient is not finite", count(step.update))
                          : fmt::format("update {}: loss is {}", count(step.update), step.loss);
  }
  while (!run.bad_updates.empty() && run.bad_updates.front() <= step.update - bad_window) run.bad_updates.pop_front();
  if (std::isfinite(step.loss)) {
    ++run.losses;
    mix(run.fast_loss, step.loss, fast, run.losses);
    // A loss far from the usual one must not become the usual one: the baseline is frozen while it lasts.
    if (run.losses <= learning_updates || (!run.loss_open && run.fast_loss < 1.3 * run.usual_loss)) {
      mix(run.usual_loss, step.loss, slow, run.losses);
    }
  }
  if (step.times.step > 0 && step.update_target_tokens > 0) {
    const double rate = static_cast<double>(step.update_target_tokens) * 1000 / step.times.step;
    ++run.rates;
    mix(run.fast_rate, rate, fast, run.rates);
    if (run.rates <= learning_updates || (!run.rate_open && run.fast_rate > 0.7 * run.usual_rate)) {
      mix(run.usual_rate, rate, slow, run.rates);
    }
  }
}

Engine::Condition Engine::condition_of(const Rule& rule, const std::string& id, const Run& run, Time now) const {
  // Alerts raised by an earlier process stay open until enough has been received.
  const bool heard = run.updates > 0;
  switch (rule.kind) {
    case Kind::nan: {
      if (run.emulated) return {};
      const auto bad = static_cast<double>(run.bad_updates.size());
      if (!run.bad_evaluation.empty()) return {bad + 1 >= rule.threshold, false, run.bad_evaluation, bad + 1};
      const bool recent = bad > 0 && run.bad_updates.back() > run.update - learning_updates;
      return {bad >= rule.threshold && recent, !recent && heard,
              fmt::format("{}; {:g} of the last {} updates", run.bad_message, bad, bad_window), bad};
    }
    case Kind::stall: {
      // Evaluations take time: up to three times the longest wait so far is normal.
      const double limit = std::max(rule.threshold, 3 * run.longest_wait.count());
      const double waited = seconds_since(run.updated, now);
      const std::int64_t last = run.update > 0 ? run.update : run.stored_update;
      const std::string which = last > 0 ? "the last was " + count(last) : "none has been reported yet";
      const bool bad = waited >= limit && !counts_as_silent(id, run, now);
      return {bad, waited < limit && heard, fmt::format("no update for {} s ({})", grouped(waited), which), waited};
    }
    case Kind::throughput_drop: {
      const double ratio = run.usual_rate > 0 ? run.fast_rate / run.usual_rate : 1;
      const bool learned = run.rates > learning_updates;
      return {learned && ratio < rule.threshold, learned && ratio > (1 + rule.threshold) / 2,
              fmt::format("{} target tokens/s, usually {}", grouped(run.fast_rate), grouped(run.usual_rate)),
              run.fast_rate};
    }
    case Kind::loss_spike: {
      const double ratio = run.usual_loss > 0 ? run.fast_loss / run.usual_loss : 1;
      const bool learned = run.losses > learning_updates;
      return {learned && ratio > rule.threshold, learned && ratio < (1 + rule.threshold) / 2,
              fmt::format("loss {:.2f} at update {}, usually {:.2f}", run.fast_loss, count(run.update), run.usual_loss),
              run.fast_loss};
    }
    case Kind::ranks_differ: {
      const auto differing = static_cast<double>(run.differing);
      // Weights that differ stay different until a new attempt starts from a checkpoint.
      return {differing >= rule.threshold, run.compared > 0 && run.differing == 0, run.differ_message, differing};
    }
    case Kind::silent:
      return silence_of(rule, run, now);
    case Kind::disk_low:
    case Kind::worker_lost:
    case Kind::restarted:
    case Kind::failed:
    case Kind::finished:
      break;
  }
  return {};
}

void Engine::settle(const Rule& rule, const std::string& run, const std::string& subject, const Condition& condition,
                    Time now, std::vector<Change>& changes) {
  const Key key{rule.name, run, subject};
  const auto found = states_.find(key);
  if (found == states_.end() && !condition.bad) return;
  State& state = found == states_.end() ? states_[key] : found->second;
  const bool turning = state.open ? condition.well : condition.bad;
  if (!turning) {
    state.changing = false;
    if (!state.open) states_.erase(key);
    return;
  }
  if (!state.changing) state.since = now;
  state.changing = true;
  if (seconds_since(state.since, now) < (state.open ? rule.clear_s : rule.hold_s)) return;
  if (!state.open && !may_raise(rule, run)) return;
  changes.push_back(
      {!state.open, rule.name, run, subject, rule.kind, condition.message, condition.value, rule.threshold});
  if (state.open) {
    states_.erase(key);
  } else {
    state = {.open = true, .changing = false, .since = now};
  }
}

void Engine::judge_ranks(const Rule& rule, const std::string& id, const Run& run, Time now,
                         std::vector<Change>& changes) {
  Time newest = run.updated;
  for (const auto& [number, rank] : run.ranks) newest = std::max(newest, rank.heard);
  // If all ranks are silent, the run has stalled or the network is down; no single rank is to blame.
  const bool others_report = seconds_since(newest, now) < rule.threshold / 2;
  for (const auto& [number, rank] : run.ranks) {
    const double silent = seconds_since(rank.heard, now);
    settle(rule, id, fmt::format("rank {}", number),
           {silent >= rule.threshold && others_report, silent < rule.threshold,
            fmt::format("{}: no record or heartbeat for {} s while other ranks report", rank_name(number, rank.host),
                        grouped(silent)),
            silent},
           now, changes);
  }
}

void Engine::judge_run(const Rule& rule, const std::string& id, Run& run, Time now, std::vector<Change>& changes) {
  if (rule.kind == Kind::worker_lost) return judge_ranks(rule, id, run, now, changes);
  settle(rule, id, "", condition_of(rule, id, run, now), now, changes);
  const auto state = states_.find({rule.name, id, ""});
  const bool open = state != states_.end() && state->second.open;
  if (rule.kind == Kind::throughput_drop) run.rate_open = run.rate_open || open;
  if (rule.kind == Kind::loss_spike) run.loss_open = run.loss_open || open;
}

void Engine::count_open() {
  floods_.clear();
  for (const auto& [key, state] : states_) {
    const auto owner = owners_.find(std::get<1>(key));
    if (state.open && owner != owners_.end()) ++floods_[{std::get<0>(key), owner->second}].open;
  }
  std::erase_if(held_events_, [&](const auto& held) {
    const auto flood = floods_.find(held.first);
    return flood == floods_.end() || flood->second.open < max_open;
  });
}

bool Engine::may_raise(const Rule& rule, const std::string& run) {
  const auto owner = owners_.find(run);
  if (owner == owners_.end()) return true;  // an alert without a run
  Flood& flood = floods_[{rule.name, owner->second}];
  const bool may = flood.open < max_open;
  ++(may ? flood.open : flood.held_back);
  return may;
}

/// Raises one alert per owner with alerts held back.
void Engine::judge_floods(Time now, std::vector<Change>& changes) {
  for (const Rule& rule : rules_) {
    if (rule.kind == Kind::disk_low || !applies(rule, "")) continue;
    std::set<std::string> owners;
    for (const auto& [key, flood] : floods_) {
      if (key.first == rule.name) owners.insert(key.second);
    }
    const auto held_back = [&](const std::string& owner) {
      if (const auto events = held_events_.find({rule.name, owner}); events != held_events_.end())
        return events->second;
      const auto found = floods_.find({rule.name, owner});
      return found == floods_.end() || is_event(rule.kind) ? 0 : found->second.held_back;
    };
    for (const auto& [key, state] : states_) {
      if (std::get<0>(key) == rule.name && std::get<1>(key).empty()) owners.insert(std::get<2>(key));
    }
    for (const std::string& owner : owners) {
      const std::size_t held = held_back(owner);
      settle(rule, "", owner,
             {held > 0, held == 0,
              fmt::format("{} further alerts of {} are held back; {} are open", held, owner, max_open),
              static_cast<double>(held)},
             now, changes);
    }
  }
}

void Engine::close_orphans(const std::vector<FreeSpace>& disks, const RunEvents& events, std::vector<Change>& changes) {
  for (auto entry = states_.begin(); entry != states_.end();) {
    const auto& [name, run, subject] = entry->first;
    const auto rule = std::find_if(rules_.begin(), rules_.end(), [&](const Rule& each) { return each.name == name; });
    const auto watched = [&](const std::string& folder) {
      return std::any_of(disks.begin(), disks.end(), [&](const FreeSpace& disk) { return disk.folder == folder; });
    };
    const bool ruled = rule != rules_.end() && applies(*rule, run);
    const bool left = ruled && rule->kind == Kind::disk_low && !watched(subject);
    const auto after = events.runs.find(run);
    const bool event = rule != rules_.end() && is_event(rule->kind);
    const bool there = event ? after != events.runs.end() && !after->second.hidden : runs_.contains(run);
    if (ruled && !left && (run.empty() || there)) {
      ++entry;
      continue;
    }
    const bool ended = rule != rules_.end() && !run.empty() && !there;
    if (entry->second.open) {
      changes.push_back({false, name, run, subject, rule == rules_.end() ? Kind::nan : rule->kind,
                         ended  ? (event ? "the run is archived or deleted" : "the run is no longer running")
                         : left ? "no run writes there any more"
                                : "its rule no longer applies",
                         0, 0});
    }
    entry = states_.erase(entry);
  }
}

std::vector<Change> Engine::judge(const std::vector<RunningRun>& running, const std::vector<FreeSpace>& disks, Time now,
                                  const RunEvents& events) {
  std::vector<Change> changes;
  std::set<std::string> active;
  for (const RunningRun& each : running) {
    active.insert(each.run);
    Run& run = runs_[each.run];
    run.owner = owner_of(each.run, each.begun_by);
    if (run.attempt < each.attempt) {  // the engine may know a newer attempt than the store did when it was read
      run = Run{.owner = run.owner, .attempt = each.attempt, .updated = now};
    }
    if (run.attempt == each.attempt) run.stored_update = each.update;
    run.emulated = each.emulated;
  }
  std::erase_if(runs_, [&](const auto& entry) { return !active.contains(entry.first); });
  for (auto& [id, run] : runs_) run.rate_open = run.loss_open = false;
  find_owners(events);
  count_open();
  for (const Rule& rule : rules_) {
    if (rule.kind == Kind::disk_low) {
      for (const auto& [folder, bytes] : disks) {
        if (!applies(rule, "")) continue;
        settle(rule, "", folder,
               {bytes < rule.threshold, bytes > 1.25 * rule.threshold,
                fmt::format("{}: {} MB free, expected at least {} MB", folder, grouped(bytes / 1e6),
                            grouped(rule.threshold / 1e6)),
                bytes},
               now, changes);
      }
      continue;
    }
    if (is_event(rule.kind)) {
      judge_events(rule, events, now, changes);
      continue;
    }
    for (auto& [id, run] : runs_) {
      if (applies(rule, id)) judge_run(rule, id, run, now, changes);
    }
  }
  judge_floods(now, changes);
  close_orphans(disks, events, changes);
  return changes;
}

}  // namespace babelring::alerts

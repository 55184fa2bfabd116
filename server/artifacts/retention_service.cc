#include "server/artifacts/retention_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/failure.h"
#include "base/names.h"
#include "base/result.h"
#include "server/artifacts/checkpoint_changes.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/exports.h"
#include "server/http/reply.h"
#include "server/store/checkpoints.h"
#include "server/store/evals.h"
#include "server/store/runs.h"

namespace babelring::artifacts {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 53;

std::int64_t count_of(std::string_view name, const json::value& value, std::int64_t low) {
  const std::int64_t* number = value.if_int64();
  if (number == nullptr || *number < low || *number > most) {
    fail("{}: expected an integer from {}, found {}", name, low, to_text(value));
  }
  return *number;
}

void read_best(RetentionPolicy& policy, const json::value& value) {
  if (!value.is_object()) fail("keep_best: expected an object with metric and count, found {}", to_text(value));
  policy.keep_best = 1;
  for (const auto& [name, member] : value.as_object()) {
    if (name == "count") {
      policy.keep_best = count_of("keep_best.count", member, 1);
    } else if (name == "metric" && (member == "sacrebleu" || member == "loss")) {
      policy.metric = member.as_string();
    } else if (name == "metric") {
      fail("keep_best.metric: expected sacrebleu or loss, found {}", to_text(member));
    } else {
      fail("keep_best.{}: unknown member", std::string_view(name));
    }
  }
}

json::value or_null(const std::optional<std::int64_t>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

/// The indices of the `count` best checkpoints by the policy's metric.
std::set<std::size_t> best_places(const RetentionPolicy& policy, const std::vector<RetentionCandidate>& candidates) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const double value = policy.metric == "loss" ? candidates[i].loss : -candidates[i].sacrebleu;
    if (std::isfinite(value)) order.emplace_back(value, i);
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), static_cast<std::size_t>(policy.keep_best.value_or(0))));
  std::set<std::size_t> places;
  for (const auto& [value, place] : order) places.insert(place);
  return places;
}

bool has_keep_rules(const RetentionPolicy& policy) {
  return policy.keep_last || policy.keep_best || policy.keep_every_steps;
}

}  // namespace

Result<RetentionPolicy> policy_from_json(const json::value& value) {
  try {
    if (!value.is_object()) fail("expected an object, found {}", to_text(value).substr(0, 40));
    RetentionPolicy policy;
    for (const auto& [name, member] : value.as_object()) {
      const std::string_view key = name;
      if (member.is_null() && (key.starts_with("keep_") || key.starts_with("max_"))) continue;
      if (key == "keep_last") {
        policy.keep_last = count_of(key, member, 1);
      } else if (key == "keep_best") {
        read_best(policy, member);
      } else if (key == "keep_every_steps") {
        policy.keep_every_steps = count_of(key, member, 1);
      } else if (key == "max_bytes") {
        policy.max_bytes = count_of(key, member, 0);
      } else if (key == "max_log_bytes") {
        policy.max_log_bytes = count_of(key, member, 0);
      } else {
        fail("{}: unknown member", key);
      }
    }
    return policy;
  } catch (const Failure& failure) {
    return Error{failure.what()};
  }
}

json::object to_json(const RetentionPolicy& policy) {
  json::object value = {{"keep_last", or_null(policy.keep_last)},
                        {"keep_best", nullptr},
                        {"keep_every_steps", or_null(policy.keep_every_steps)},
                        {"max_bytes", or_null(policy.max_bytes)},
                        {"max_log_bytes", or_null(policy.max_log_bytes)}};
  if (policy.keep_best) value["keep_best"] = {{"metric", policy.metric}, {"count", *policy.keep_best}};
  return value;
}

Protection protection_of(const std::vector<RetentionCandidate>& candidates, std::size_t place) {
  const RetentionCandidate& candidate = candidates.at(place);
  if (candidate.pinned) return Protection::pinned;
  if (candidate.best) return Protection::best;
  const auto last = std::find_if(candidates.begin(), candidates.end(), [](const auto& one) { return one.intact; });
  if (last - candidates.begin() == static_cast<std::ptrdiff_t>(place)) return Protection::last;
  return candidate.removable ? Protection::none : Protection::in_use;
}

std::vector<std::size_t> choose_removals(const RetentionPolicy& policy,
                                         const std::vector<RetentionCandidate>& candidates) {
  const std::set<std::size_t> best = best_places(policy, candidates);
  std::vector<std::size_t> removals;
  std::int64_t kept = 0, bytes = 0;
  std::vector<std::size_t> left;  // removable for max_bytes, newest first
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const RetentionCandidate& candidate = candidates[i];
    const bool wanted = !has_keep_rules(policy) || (policy.keep_last && kept < *policy.keep_last) || best.contains(i) ||
                        (policy.keep_every_steps && candidate.step % *policy.keep_every_steps == 0);
    if (candidate.intact) ++kept;  // a damaged one does not count towards keep_last
    const bool may_go = protection_of(candidates, i) == Protection::none;
    if (!wanted && may_go) {
      removals.push_back(i);
      continue;
    }
    bytes += candidate.bytes;
    if (may_go) left.push_back(i);
  }
  while (policy.max_bytes && bytes > *policy.max_bytes && !left.empty()) {
    bytes -= candidates[left.back()].bytes;
    removals.push_back(left.back());
    left.pop_back();
  }
  return removals;
}

namespace {

namespace fs = std::filesystem;
constexpr auto interval = std::chrono::seconds(10);
constexpr auto after_a_failure = std::chrono::hours(1);  // or when a policy is set
constexpr std::int64_t max_checkpoints = 1000;           // of a run, looked at in one round

struct Candidates {
  std::vector<store::CheckpointRow> rows;  // newest first
  std::vector<RetentionCandidate> facts;
};

bool is_marked_best(const fs::path& folder) {
  return best_checkpoint_name(folder.parent_path()) == folder.filename();
}

RetentionCandidate facts_of(const Context& context, const store::CheckpointRow& row) {
  RetentionCandidate facts{
      .step = row.step, .sacrebleu = row.sacrebleu, .loss = row.loss, .pinned = row.pinned, .best = row.best};
  facts.bytes = bytes_of(manifest_of(row));
  const OnDisk state = inspect(context.roots, row);
  facts.intact = state == OnDisk::intact;
  facts.removable = (state == OnDisk::intact || state == OnDisk::damaged) && !context.downloads.in_use(row.id);
  if (state == OnDisk::intact || state == OnDisk::damaged) {
    const fs::path folder = folder_of(context.roots, row);
    facts.pinned = facts.pinned || is_marked(folder);
    facts.best = facts.best || is_marked_best(folder);
  }
  return facts;
}

Candidates candidates_of(const Context& context, const std::string& run_id) {
  Candidates candidates;
  store::ComparableScores scores;
  {
    auto reader = context.store.reader(store::Store::For::own);
    const auto run = store::find_run(*reader, run_id);
    store::CheckpointFilter filter;
    filter.limit = max_checkpoints;
    if (run) candidates.rows = store::list_checkpoints(*reader, run->number, filter);
    if (run) scores = store::comparable_scores(*reader, run->number);
  }
  for (const store::CheckpointRow& row : candidates.rows) {
    RetentionCandidate& facts = candidates.facts.emplace_back(facts_of(context, row));
    if (scores.other_loss.contains(row.step)) facts.loss = store::absent;
    if (scores.other_bleu.contains(row.step)) facts.sacrebleu = store::absent;
  }
  return candidates;
}

/// Checks digests from the newest checkpoint on until one is intact, as sizes do not show all damage and digests take
/// seconds. Marks the newer ones as damaged. Returns false if no checkpoint is intact.
bool find_newest_undamaged(const Context& context, Candidates& candidates, RetentionMemory& memory) {
  for (std::size_t place = 0; place < candidates.rows.size(); ++place) {
    RetentionCandidate& facts = candidates.facts[place];
    const store::CheckpointRow& row = candidates.rows[place];
    if (!facts.intact) continue;
    const auto [known, fresh] = memory.undamaged.try_emplace(row.id, false);
    if (fresh) {
      known->second = digests_match(context.roots, row);
      if (!known->second)
        spdlog::warn("retention: {} of {} is damaged and does not count towards keep_last", row.name, row.run);
    }
    if (known->second) return true;
    facts.intact = false;
  }
  return false;
}

void apply(const Context& context, const std::string& run_id, RetentionMemory& memory) {
  std::string text;
  {
    auto reader = context.store.reader(store::Store::For::own);
    const auto run = store::find_run(*reader, run_id);
    if (run) text = store::retention_of(*reader, run->number);
  }
  if (text.empty()) return;
  const auto policy = policy_from_json(parse_json(text).value());
  Candidates candidates = candidates_of(context, run_id);
  if (choose_removals(policy.value(), candidates.facts).empty()) return;
  if (!find_newest_undamaged(context, candidates, memory)) return;
  for (const std::size_t place : choose_removals(policy.value(), candidates.facts)) {
    const store::CheckpointRow& row = candidates.rows[place];
    const auto found = memory.refused.find(row.id);
    if (found != memory.refused.end() && SteadyClock::now() < found->second) continue;
    try {
      remove_by_retention(context, row);
      spdlog::info("retention: removed {} of {}", row.name, run_id);
    } catch (const http::Problem& problem) {  // the others are tried all the same
      memory.refused[row.id] = SteadyClock::now() + after_a_failure;
      spdlog::warn("retention: {} of {}: {}", row.name, run_id, problem.what());
    } catch (const std::exception& failure) {  // the store's: in the next round
      spdlog::warn("retention: {} of {}: {}", row.name, run_id, failure.what());
    }
  }
}

}  // namespace

Protection protection_on_disk(const Context& context, const store::CheckpointRow& checkpoint) {
  Candidates candidates = candidates_of(context, checkpoint.run);
  for (std::size_t place = 0; place < candidates.rows.size(); ++place) {
    if (candidates.rows[place].id == checkpoint.id) return protection_of(candidates.facts, place);
  }
  candidates.facts.push_back(facts_of(context, checkpoint));  // older than all of them
  return protection_of(candidates.facts, candidates.facts.size() - 1);
}

RetentionService::RetentionService(const Context& context)
    : context_(context), unfinished_(context), thread_("retention", interval, [this] { work(); }) {
  thread_.wake();
}

RetentionService::~RetentionService() {
  stopping_ = true;
}

void RetentionService::wake() {
  poked_ = true;
  thread_.wake();
}

void RetentionService::work() {
  if (!std::exchange(finished_, true)) unfinished_.finish(stopping_);
  if (poked_.exchange(false)) memory_ = {};
  apply_all();
}

void RetentionService::apply_all() {
  std::vector<std::string> runs;
  {
    auto reader = context_.store.reader(store::Store::For::own);
    runs = store::runs_with_retention(*reader);
  }
  for (const std::string& run : runs) apply(context_, run, memory_);
  remove_orphaned_exports(context_.store);
}

}  // namespace babelring::artifacts

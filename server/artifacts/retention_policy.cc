#include "server/artifacts/retention_policy.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/failure.h"

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

}  // namespace babelring::artifacts

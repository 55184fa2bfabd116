#include "server/alerts/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace babelring::alerts {
namespace {

constexpr double max_seconds = 7 * 86'400;

/// Min and max threshold of a kind, in its unit.
struct Bounds {
  double low, high;
};
Bounds bounds_of(Kind kind) {
  switch (kind) {
    case Kind::nan:
    case Kind::ranks_differ:
    case Kind::restarted:
      return {1, 100};
    case Kind::throughput_drop:
      return {0.01, 0.99};
    case Kind::loss_spike:
      return {1.01, 1000};
    case Kind::disk_low:
      return {1, 1e15};
    case Kind::failed:
    case Kind::finished:
      return {0, 1e12};
    case Kind::stall:
    case Kind::worker_lost:
    case Kind::silent:
      break;
  }
  return {1, max_seconds};
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

std::string_view to_string(Kind kind) {
  return kind_names[static_cast<std::size_t>(kind)];
}

bool is_event(Kind kind) {
  return kind == Kind::restarted || kind == Kind::failed || kind == Kind::finished;
}

std::optional<Kind> kind_of(std::string_view name) {
  const auto found = std::find(kind_names.begin(), kind_names.end(), name);
  if (found == kind_names.end()) return std::nullopt;
  return static_cast<Kind>(found - kind_names.begin());
}

bool applies(const Rule& rule, const std::string& run) {
  return rule.enabled && (rule.run.empty() || rule.run == run);
}

std::vector<Rule> default_rules() {
  return {{.name = "nan", .kind = Kind::nan, .threshold = 1, .hold_s = 0, .clear_s = 60},
          {.name = "stall", .kind = Kind::stall, .threshold = 60, .hold_s = 0, .clear_s = 5},
          {.name = "throughput-drop", .kind = Kind::throughput_drop, .threshold = 0.5, .hold_s = 60, .clear_s = 30},
          {.name = "loss-spike", .kind = Kind::loss_spike, .threshold = 1.5, .hold_s = 10, .clear_s = 30},
          {.name = "disk-low", .kind = Kind::disk_low, .threshold = 1'073'741'824, .hold_s = 0, .clear_s = 10},
          {.name = "worker-lost", .kind = Kind::worker_lost, .threshold = 30, .hold_s = 0, .clear_s = 5},
          {.name = "ranks-differ", .kind = Kind::ranks_differ, .threshold = 1, .hold_s = 0, .clear_s = 0},
          {.name = "silent", .kind = Kind::silent, .threshold = 60, .hold_s = 0, .clear_s = 5},
          {.name = "restarted", .kind = Kind::restarted, .threshold = 1, .hold_s = 0, .clear_s = 300},
          {.name = "failed", .kind = Kind::failed, .threshold = 0, .hold_s = 0, .clear_s = 0},
          {.name = "finished", .kind = Kind::finished, .enabled = false, .threshold = 0, .clear_s = 86'400}};
}

Status check_rule(const Rule& rule) {
  if (!is_name(rule.name))
    return Error{fmt::format("name: expected 1 to 64 of a-z, 0-9, _ and -, found '{}'", rule.name)};
  const auto [low, high] = bounds_of(rule.kind);
  if (!(rule.threshold >= low && rule.threshold <= high)) {
    return Error{fmt::format("threshold: expected {:g} to {:g} for {}, found {:g}", low, high, to_string(rule.kind),
                             rule.threshold)};
  }
  if (is_event(rule.kind) && rule.hold_s != 0)
    return Error{
        fmt::format("hold_s: expected 0 for {}, which is an event, found {:g}", to_string(rule.kind), rule.hold_s)};
  for (const auto& [name, value] : {std::pair{"hold_s", rule.hold_s}, std::pair{"clear_s", rule.clear_s}}) {
    if (!(value >= 0 && value <= max_seconds)) {
      return Error{fmt::format("{}: expected 0 to {:g} seconds, found {:g}", name, max_seconds, value)};
    }
  }
  return {};
}

}  // namespace babelring::alerts

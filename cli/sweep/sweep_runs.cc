#include "cli/sweep/sweep_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <string_view>

#include "base/failure.h"
#include "base/json_get.h"
#include "base/log.h"

namespace babelring {
namespace {

constexpr std::size_t max_sweep_runs = 100'000;  // with those of cells that were started again
constexpr const char* run_fields =
    "id,name,state,detail,labels,update,max_updates,loss,target_tokens_per_second,last_eval,best";
constexpr std::array<std::string_view, 10> states = {"queued",    "launching", "running", "stopping", "restarting",
                                                     "suspended", "lost",      "failed",  "stopped",  "succeeded"};

}  // namespace

std::map<std::string, json::object> sweep_runs(ApiClient& api, const std::string& sweep) {
  const std::string label = percent_encoded(fmt::format("{}={}", sweep_label, sweep));
  std::map<std::string, json::object> newest;
  for (json::object& run : api.get_items(fmt::format("/runs?label={}&fields={}", label, run_fields), max_sweep_runs)) {
    const json::object* labels = get_object(run, "labels");
    const std::string cell = labels == nullptr ? std::string() : get_text(*labels, cell_label);
    if (!cell.empty()) newest.emplace(cell, std::move(run));  // the newest comes first
  }
  return newest;
}

std::map<std::string, json::object> require_sweep_runs(ApiClient& api, const std::string& sweep) {
  auto runs = sweep_runs(api, sweep);
  if (runs.empty()) {
    throw UsageFailure(fmt::format("sweep {}: no run on {} has the label {}={}", printable(sweep), api.access().address,
                                   sweep_label, printable(sweep)));
  }
  return runs;
}

std::size_t count_state(const std::map<std::string, json::object>& runs, std::string_view state) {
  return static_cast<std::size_t>(
      std::ranges::count_if(runs, [&](const auto& run) { return get_text(run.second, "state") == state; }));
}

std::string count_states(const std::map<std::string, json::object>& runs) {
  std::string text;
  for (const std::string_view state : states) {
    const std::size_t count = count_state(runs, state);
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, state);
  }
  return text.empty() ? "no run" : text;
}

bool has_ended(const json::object& run) {
  const std::string state = get_text(run, "state");
  return state == "succeeded" || state == "failed" || state == "stopped";
}

}  // namespace babelring

#include "cli/runs/find_run.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <functional>

#include "base/check_name.h"
#include "base/log.h"
#include "base/records/records.h"
#include "cli/runs/text_format.h"
#include "client/problem.h"

namespace babelring {
namespace {

constexpr std::size_t max_asked = 1000;
constexpr std::size_t max_listed = 4;

[[noreturn]] void fail_ambiguous(const std::string& named, const std::vector<const json::object*>& fitting) {
  std::string list;
  for (std::size_t i = 0; i < std::min(max_listed, fitting.size()); ++i) {
    const json::object& run = *fitting[i];
    list += fmt::format("{}{} ({}, {}, {})", i == 0 ? "" : ", ", text_of(run, "id"), text_of(run, "name"),
                        text_of(run, "state"), text_of(run, "created_at"));
  }
  fail("'{}' matches {} runs: {}{}; give an id", printable(named), fitting.size(), list,
       fitting.size() > max_listed ? ", …" : "");
}

}  // namespace

json::object find_run(ApiClient& api, const std::string& named) {
  if (named.empty()) throw UsageFailure("expected a run's id or name, found an empty string");
  if (valid_id(named, 'r')) return api.get("/runs/" + named);
  const std::vector<json::object> runs = api.get_items("/runs?q=" + percent_encoded(named), max_asked);
  const std::function<bool(const json::object&)> rules[] = {
      [&](const json::object& run) { return named.starts_with("r_") && text_of(run, "id").starts_with(named); },
      [&](const json::object& run) { return text_of(run, "name") == named; },
      [&](const json::object& run) { return text_of(run, "name").starts_with(named); },
  };
  for (const auto& fits : rules) {
    std::vector<const json::object*> fitting;
    for (const json::object& run : runs) {
      if (fits(run)) fitting.push_back(&run);
    }
    if (fitting.size() > 1) fail_ambiguous(named, fitting);
    if (fitting.size() == 1) return api.get("/runs/" + text_of(*fitting[0], "id"));
  }
  fail("{} has no run with an id or name that starts with '{}' (`nmt run list` shows all runs)", api.access().address,
       printable(named));
}

}  // namespace babelring

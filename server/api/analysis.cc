#include "server/api/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "insight/report/report.h"
#include "insight/steps.h"
#include "insight/verdict/verdict.h"
#include "insight/what_if/what_if.h"
#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/query.h"
#include "server/api/responses.h"
#include "server/store/checkpoints.h"
#include "server/verdict/verdict_input.h"

namespace babelring::api {

bool WhatIfRuns::Entry::is_fresh(const store::RunRow& now) const {
  constexpr int pauses_for = 20;  // times the reading time, which limits it to a twentieth of a processor
  const auto age = SteadyClock::now() - read_at;
  if (attempt != now.attempt) return false;
  return age < pauses_for * took || (updated_ms == now.updated_ms && age < std::chrono::seconds(10));
}

std::shared_ptr<const insight::WhatIfRun> WhatIfRuns::get(const store::RunRow& run, const Read& read) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.run == run.id; });
    if (known != entries_.end() && known->is_fresh(run)) return known->content;
  }
  Entry entry{.run = run.id, .attempt = run.attempt, .updated_ms = run.updated_ms, .read_at = {}, .content = {}};
  const auto began = SteadyClock::now();
  entry.content = std::make_shared<const insight::WhatIfRun>(read());
  entry.read_at = SteadyClock::now();
  entry.took = entry.read_at - began;
  const std::lock_guard lock(mutex_);
  entries_.remove_if([&](const Entry& e) { return e.run == run.id; });
  entries_.push_front(entry);
  if (entries_.size() > max_entries) entries_.pop_back();
  return entry.content;
}

http::Response show_report(Service& service, const http::Request& request) {
  const std::string word = choice_query(request, "format", {"json", "html", "md"});
  const insight::ReportFormat format = choice_of(insight::report_formats(), word);
  auto reader = query_reader(service, request);
  const store::RunRow run = require_run(*reader, request);
  const insight::Report report = insight::make_report(verdict::read_stored_history(*reader, run));
  const char* type = format == insight::ReportFormat::html       ? "text/html; charset=utf-8"
                     : format == insight::ReportFormat::markdown ? "text/markdown; charset=utf-8"
                                                                 : "application/json";
  http::Response response = http::text_response(200, type, insight::render(report, format));
  response.set("Cache-Control", "no-store");
  if (format == insight::ReportFormat::html) {
    response.set("Content-Security-Policy", insight::report_security_policy());
  }
  return response;
}

http::Response show_verdict(Service& service, const http::Request& request) {
  auto reader = query_reader(service, request);
  const store::RunRow run = require_run(*reader, request);
  verdict::Input input = verdict::read_input(*reader, run);
  if (run.state == store::RunState::running && service.control != nullptr) {
    input.hosts = verdict::host_loads(run, &service.control->heartbeats());
  }
  const verdict::Verdict verdict = verdict::judge(input);
  json::array evidence;
  for (const auto& [key, value, unit, fraction] : verdict.evidence) {
    evidence.push_back({{"key", key}, {"value", value}, {"unit", unit}, {"share", fraction}});
  }
  const bool seen = verdict.last_update > 0;
  const json::object window = {{"first_update", verdict.first_update}, {"last_update", verdict.last_update}};
  return json_response(json::object{{"verdict", verdict::to_string(verdict.kind)},
                                    {"level", verdict::to_string(verdict.level)},
                                    {"sentence", verdict.sentence},
                                    {"advice", verdict.advice},
                                    {"confidence", verdict.confidence},
                                    {"window", seen ? json::value(window) : json::value(nullptr)},
                                    {"evidence", std::move(evidence)}});
}

namespace {

using insight::WhatIf, insight::WhatIfChange, insight::WhatIfRun, insight::WhatIfStep;

/// A query parameter as a number in [low, high]; nothing if it is absent.
std::optional<double> bounded_query(const http::Request& request, const std::string& name, double low, double high) {
  const double value = number_query(request, name);
  if (std::isnan(value)) return std::nullopt;
  if (value >= low && value <= high) return value;
  throw http::Problem(400, "bad_parameter",
                      fmt::format("{}: expected a number from {} to {}, found {}", name, low, high, value));
}

std::optional<int> count_query(const http::Request& request, const std::string& name, int high) {
  const auto value = integer_query(request, name, 1, high);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

template <class Enum>
std::optional<Enum> named_query(const http::Request& request, const std::string& name, const Choices<Enum>& choices) {
  const auto word = request.query_value(name);
  if (!word || word->empty()) return std::nullopt;
  for (const auto& [known, meaning] : choices) {
    if (known == *word) return meaning;
  }
  throw http::Problem(
      400, "bad_parameter",
      fmt::format("{}: expected one of {}, found '{}'", name, fmt::join(words_of(choices), ", "), *word));
}

WhatIfChange read_change(const http::Request& request) {
  return {.hosts = count_query(request, "hosts", WhatIfChange::max_ranks),
          .ranks_per_host = count_query(request, "ranks_per_host", WhatIfChange::max_ranks),
          .link_gbit = bounded_query(request, "link_gbit", 0.001, 10'000),
          .latency_us = bounded_query(request, "latency_us", 0, 1e6),
          .wire = named_query(request, "wire", wire_choices()),
          .bucket_mb = bounded_query(request, "bucket_mb", 0.01, 10'000),
          .accumulate = count_query(request, "accumulate", 1000),
          .algorithm = named_query(request, "algorithm", insight::algorithm_choices()),
          .optimizer = named_query(request, "optimizer", insight::optimizer_choices()),
          .straggler = bounded_query(request, "straggler", 0, 1000)};
}

/// The updates until the run's end; 0 if the clock ends it or the end is unknown.
double updates_left(const store::RunRow& run) {
  const auto update = static_cast<double>(run.last.step);
  if (run.max_updates > 0) return std::max(0.0, static_cast<double>(run.max_updates) - update);
  const double done = run.last.value("fraction_done");
  const bool by_clock = verdict::number_in(verdict::config_scalar(run.config, "training.max_minutes")) > 0;
  return done > 0 && done < 1 && !by_clock ? update * (1 - done) / done : 0;
}

/// Rank 0's record of its ops in the newest attempt; nothing if this server can read none.
std::optional<insight::RankRecord> profile_of(store::Reader& reader, const store::RunRow& run) {
  const auto newest = store::list_artifacts(reader, run.number, {.kind = "profile", .before = {}, .limit = 1});
  if (newest.empty() || newest[0].attempt != run.attempt) return std::nullopt;
  const auto content = parse_json(store::content_of_artifact(reader, newest[0].id));
  if (!content) return std::nullopt;
  Result<insight::RankRecord> record = insight::rank_record_from_json(*content);
  return record ? std::optional(std::move(record).value()) : std::nullopt;
}

json::object parts_item(const insight::StepParts& parts) {
  json::object item = {{"waiting_for_slowest_ms", parts.waiting_for_slowest}};
  for (const StepTimesMember& member : step_part_members) item[member.key] = parts.*member.value;
  return item;
}

json::value seconds_item(double seconds) {
  return seconds > 0 ? json::value(seconds) : json::value(nullptr);
}

json::object setup_item(const insight::RunSetup& setup) {
  const insight::Topology& topology = setup.topology;
  return {
      {"hosts", topology.hosts},
      {"ranks_per_host", topology.ranks_per_host},
      {"link_gbit", std::isfinite(topology.between.gbit_per_s) ? json::value(topology.between.gbit_per_s) : nullptr},
      {"latency_us", topology.between.latency_us},
      {"wire", word_of(wire_choices(), topology.wire)},
      {"bucket_mb", setup.bucket_mb},
      {"accumulate", setup.accumulate},
      {"algorithm", word_of(insight::algorithm_choices(), topology.algorithm)},
      {"offered", insight::is_offered(topology.algorithm)},
      {"optimizer", word_of(insight::optimizer_choices(), topology.optimizer)},
      {"straggler", setup.straggler}};
}

json::object step_item(const WhatIfStep& step) {
  const insight::Prediction& prediction = step.prediction;
  return {{"setup", setup_item(step.setup)},
          {"step_ms", prediction.step_ms.median},
          {"low_ms", prediction.low_ms},
          {"high_ms", prediction.high_ms},
          {"parts", parts_item(prediction.parts)},
          {"communication_ms", prediction.communication_ms},
          {"host_megabytes", prediction.host_megabytes},
          {"target_tokens_per_second", prediction.size_per_s},
          {"efficiency", prediction.efficiency},
          {"seconds_left", seconds_item(step.seconds_left)}};
}

json::array lines(const std::vector<std::string>& texts) {
  return json::array(texts.begin(), texts.end());
}

json::object what_if_item(const WhatIf& result) {
  json::object baseline = step_item(result.baseline);
  baseline["error"] = result.baseline_error;
  return {{"measured",
           {{"step_ms", result.measured_ms},
            {"parts", parts_item(result.measured)},
            {"target_tokens_per_second", result.measured_tokens_per_s},
            {"seconds_left", seconds_item(result.measured_seconds_left)}}},
          {"baseline", std::move(baseline)},
          {"fits", result.fits()},
          {"predicted", result.fits() ? json::value(step_item(result.predicted)) : json::value(nullptr)},
          {"warnings", lines(result.warnings)},
          {"assumed", lines(result.assumed)}};
}

}  // namespace

http::Response show_what_if(Service& service, const http::Request& request) {
  const WhatIfChange change = read_change(request);
  auto reader = query_reader(service, request);
  const store::RunRow row = require_run(*reader, request);
  const auto run = service.what_if_runs.get(row, [&] {
    return WhatIfRun{.input = verdict::read_input(*reader, row, verdict::fast_step_rows),
                     .updates_left = updates_left(row),
                     .profile = profile_of(*reader, row)};
  });
  const auto result = insight::what_if(*run, change);
  if (!result) {
    if (const Status enough = insight::enough_updates(*run); !enough) {
      throw http::Problem(409, "too_few_updates", enough.error());
    }
    throw http::Problem(422, "prediction_refused", result.error());
  }
  return json_response(what_if_item(*result)).set("Cache-Control", "no-store");
}

}  // namespace babelring::api

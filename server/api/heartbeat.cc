#include <map>

#include "base/clock.h"
#include "base/names.h"
#include "base/records/library_versions.h"
#include "base/records/records.h"
#include "server/access/audited.h"
#include "server/alerts/alert_watch.h"
#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/records.h"
#include "server/api/responses.h"
#include "server/store/steps.h"

namespace babelring::api {
namespace {

/// The rank's state. `age_s` is the age of its last heartbeat, if it sends any.
const char* state_of_rank(const store::RunRow& run, const store::RankRow& rank, std::optional<double> age_s,
                          std::int64_t now_ms) {
  if (!store::has_attempt(run.state) && run.state != store::RunState::lost) return "ended";
  const bool silent = age_s ? *age_s > fresh_s : now_ms - rank.updated_ms > verdict::stale_after_ms;
  if (silent || run.state == store::RunState::lost) return "silent";
  return rank.last_update == 0 ? "starting" : "training";
}

/// The versions of the rank's libraries by key; an empty object if it did not tell them.
json::object libraries_of(const store::RankRow& rank) {
  const Result<json::value> stored = parse_json(rank.libraries);
  return to_json(library_versions_from_json(stored.ok() ? *stored : json::value()));
}

}  // namespace

http::Response list_ranks(Service& service, const http::Request& request) {
  const std::int64_t limit = page_limit(request), first = read_cursor(request).first;
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  const std::int64_t now_ms = wall_time_ms();
  std::map<std::int64_t, launch::ReceivedHeartbeat> beats;
  if (service.control != nullptr) {
    for (auto& heard : service.control->heartbeats().of(run.id, run.attempt)) beats[heard.beat.rank] = std::move(heard);
  }
  auto ranks = store::list_ranks(*reader, run.number, run.attempt, first, limit + 1);
  std::optional<std::string> next;
  if (static_cast<std::int64_t>(ranks.size()) > limit) {
    next = make_cursor(ranks.back().rank, 0);
    ranks.pop_back();
  }
  json::array items;
  for (const store::RankRow& rank : ranks) {
    json::object item = {{"rank", rank.rank},
                         {"attempt", rank.attempt},
                         {"host", rank.host},
                         {"pid", rank.pid},
                         {"device", rank.device},
                         {"libraries", libraries_of(rank)},
                         {"update", rank.last_update},
                         {"records", rank.records},
                         {"missing", rank.missing},
                         {"last_record_at", format_rfc3339(rank.updated_ms)},
                         {"record_age_ms", now_ms - rank.updated_ms}};
    for (const char* key : {"step_ms", "target_tokens_per_second", "network_rx_bytes_per_second",
                            "network_tx_bytes_per_second", "busy_fraction", "exposed_communication_ms"}) {
      item[key] = rank.last.value(key);
    }
    const auto heard = beats.find(rank.rank);
    std::optional<double> age_s;
    if (heard != beats.end()) age_s = service.control->heartbeats().age_s(heard->second);
    item["state"] = state_of_rank(run, rank, age_s, now_ms);
    item["heartbeat_age_ms"] = age_s ? json::value(static_cast<std::int64_t>(*age_s * 1000)) : nullptr;
    item["since_update_s"] = age_s ? json::value(heard->second.beat.since_update_s + *age_s) : nullptr;
    item["resident_bytes"] = age_s ? json::value(heard->second.beat.resident_bytes) : nullptr;
    item["gpu"] = age_s ? gpu_item(heard->second.beat.gpu) : nullptr;
    items.push_back(std::move(item));
  }
  return page_response(request, std::move(items), std::move(next), {{"attempt", run.attempt}});
}

namespace {

constexpr std::int64_t huge = std::int64_t{1} << 60;

std::optional<launch::BeatGpu> read_gpu(Body& body) {
  const json::value* gpu = body.value("gpu");
  if (gpu == nullptr) return std::nullopt;
  Body part(*gpu, "gpu/");
  return launch::BeatGpu{.utilization_percent = part.integer("utilization_percent", 0, huge),
                         .memory_used_bytes = part.integer("memory_used_bytes", 0, huge),
                         .clock_mhz = part.integer("clock_mhz", 0, huge),
                         .power_w = part.number("power_w", 0, 1e12),
                         .power_limit_w = part.number("power_limit_w", 0, 1e12)};
}

launch::Beat read_beat(const http::Request& request) {
  Body body(request);
  const auto count = [&](const char* name) { return body.integer(name, 0, huge).value_or(0); };
  launch::Beat beat;
  beat.attempt = body.integer("attempt", 1, max_number).value_or(0);
  if (beat.attempt == 0) Body::refuse("attempt", "expected, but absent");
  beat.rank = body.integer("rank", 0, max_rank).value_or(0);
  beat.host = body.required_text("host", 255);
  Body::require_name("host", beat.host);
  beat.pid = count("pid");
  beat.update = count("update");
  beat.since_update_s = body.number("since_update_s", 0, 1e12).value_or(0);
  beat.checkpoint_done = count("checkpoint_done");
  beat.trace_done = body.integer("trace_done", 0, huge);
  beat.resident_bytes = count("resident_bytes");
  beat.gpu = read_gpu(body);
  beat.memory_bytes = count("memory_bytes");
  beat.memory_available_bytes = count("memory_available_bytes");
  beat.memory_limit_bytes = count("memory_limit_bytes");
  beat.memory_left_bytes = count("memory_left_bytes");
  beat.disk_free_bytes = count("disk_free_bytes");
  beat.network_rx_bytes = count("network_rx_bytes");
  beat.network_tx_bytes = count("network_tx_bytes");
  beat.processors = count("processors");
  beat.load = body.number("load", 0, 1e9).value_or(0);
  beat.temperature_celsius = body.number("temperature_celsius", -300, 1e4);
  beat.arrived = request.complete;
  return beat;  // ignore members of newer workers, which must not count as dead because of them
}

std::optional<store::CommandRow> commands_for(Service& service, const std::string& run, const launch::Beat& beat) {
  if (!valid_id(run, 'r')) return std::nullopt;
  auto reader = service.store.reader(store::Store::For::reports);
  return store::find_commands(reader->database, run, beat.attempt);
}

void check_report(const store::ReportSender& reporter, const std::string& run, const store::ReportedRun& known,
                  const launch::Beat& beat) {
  auto refusal = store::refuse_reporter(reporter, run, known);
  if (!refusal) refusal = store::refuse_place(run, known, beat.attempt, beat.rank);
  if (refusal) throw problem_of(refusal->kind, refusal->detail);
}

json::object node_item(const launch::Node& node, const launch::Heartbeats& heartbeats) {
  const launch::Beat& beat = node.newest.beat;
  json::array ranks;
  for (const launch::Node::Rank& rank : node.ranks) {
    ranks.push_back({{"run", rank.run}, {"rank", rank.rank}, {"gpu", gpu_item(rank.gpu)}});
  }
  const double age_s = heartbeats.age_s(node.newest);
  return {{"host", node.host},
          {"heartbeat_age_ms", static_cast<std::int64_t>(age_s * 1000)},
          {"silent", age_s > fresh_s},
          {"processors", beat.processors},
          {"load", beat.load},
          {"temperature_celsius", number_or_null(beat.temperature_celsius)},
          {"memory_bytes", beat.memory_bytes},
          {"memory_available_bytes", beat.memory_available_bytes},
          {"disk_free_bytes", beat.disk_free_bytes},
          {"network_rx_bytes_per_second", node.newest.rx_bytes_per_s},
          {"network_tx_bytes_per_second", node.newest.tx_bytes_per_s},
          {"ranks", std::move(ranks)}};
}

}  // namespace

http::Response add_heartbeat(Service& service, const http::Request& request) {
  const std::string& run = request.parameter("run");
  const launch::Beat beat = read_beat(request);
  const store::ReportSender reporter = reporter_of(request);
  auto order = commands_for(service, run, beat);
  if (order) check_report(reporter, run, *order, beat);
  if (order && beat.attempt > order->attempt) {
    // A run started by hand. Its records may arrive much later, after the previous attempt's spool.
    access::audited_write(service.audit, request, 200, [&](store::Database& database) {
      return store::record_newer_attempt(database, run, beat.attempt, beat.host, wall_time_ms());
    });
    publish_run(service, run);
    order = commands_for(service, run, beat);
  }
  if (!order) throw no_run(run);
  if (order->fenced) {
    throw http::Problem(
        409, "stale_attempt",
        fmt::format("attempt {} of run {} is over; attempt {} is the newest", beat.attempt, run, order->attempt));
  }
  service.ranks.record(reporter.token, run, beat.rank, order->ranks);
  launch::ControlPlane& control = control_of(service);
  if (control.heartbeats().record(run, beat, {.token = reporter.token, .ranks = order->ranks})) control.wake();
  if (service.alerts != nullptr) service.alerts->heard(run, beat.attempt, beat.rank, beat.host);
  json::array commands;
  if (order->state == store::RunState::stopping && beat.attempt == order->attempt) {
    commands.push_back({{"kind", "stop"}, {"mode", name_of(order->stop_mode)}});
  }
  // Only rank 0 gets these commands and passes them on, so that each request makes one checkpoint or one trace.
  if (beat.rank == 0 && beat.attempt == order->attempt) {
    if (order->checkpoints_requested > beat.checkpoint_done) {
      commands.push_back({{"kind", "checkpoint"}, {"number", order->checkpoints_requested}});
    }
    if (beat.trace_done && order->trace.number > *beat.trace_done) {
      commands.push_back({{"kind", "trace"},
                          {"number", order->trace.number},
                          {"updates", order->trace.updates},
                          {"ops", order->trace.ops}});
    }
  }
  return json_response(json::object{{"commands", std::move(commands)}, {"interval_ms", 1000}});
}

http::Response list_nodes(Service& service, const http::Request& request) {
  launch::Heartbeats& heartbeats = control_of(service).heartbeats();
  NamedPage page(request);
  for (const launch::Node& node : heartbeats.nodes()) {  // by name
    if (page.takes(node.host)) page.add(node_item(node, heartbeats));
  }
  return page.response();
}

http::Response show_node(Service& service, const http::Request& request) {
  launch::Heartbeats& heartbeats = control_of(service).heartbeats();
  for (const launch::Node& node : heartbeats.nodes()) {
    if (node.host == request.parameter("host")) return json_response(node_item(node, heartbeats));
  }
  throw http::Problem(404, "node_unknown", "no rank on this host reported in the last 24 hours");
}

json::value gpu_item(const std::optional<launch::BeatGpu>& gpu) {
  if (!gpu) return nullptr;
  return json::object{{"utilization_percent", integer_or_null(gpu->utilization_percent)},
                      {"memory_used_bytes", integer_or_null(gpu->memory_used_bytes)},
                      {"clock_mhz", integer_or_null(gpu->clock_mhz)},
                      {"power_w", number_or_null(gpu->power_w)},
                      {"power_limit_w", number_or_null(gpu->power_limit_w)}};
}

}  // namespace babelring::api

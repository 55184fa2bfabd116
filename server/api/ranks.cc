#include <map>

#include "nmt/base/clock.h"
#include "server/api/answers.h"
#include "server/api/service.h"
#include "server/launch/control_plane.h"

namespace babelring::api {
namespace {

http::Response list_ranks(Service& service, const http::Request& request) {
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  const std::int64_t now_ms = wall_time_ms();
  std::map<std::int64_t, launch::HeardBeat> beats;
  if (service.control != nullptr) {
    for (auto& heard : service.control->heartbeats().of(run.id, run.attempt)) beats[heard.beat.rank] = std::move(heard);
  }
  json::array items;
  for (const store::RankRow& rank : store::list_ranks(*reader, run.number, run.attempt)) {
    json::object item = {{"rank", rank.rank},
                         {"attempt", rank.attempt},
                         {"host", rank.host},
                         {"pid", rank.pid},
                         {"device", rank.device},
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
    const bool beats_too = heard != beats.end();
    const auto age_s = [&] { return service.control->heartbeats().age_s(heard->second); };
    item["heartbeat_age_ms"] = beats_too ? json::value(static_cast<std::int64_t>(age_s() * 1000)) : nullptr;
    item["since_update_s"] = beats_too ? json::value(heard->second.beat.since_update_s + age_s()) : nullptr;
    item["resident_bytes"] = beats_too ? json::value(heard->second.beat.resident_bytes) : nullptr;
    items.push_back(std::move(item));
  }
  return json_response(json::object{{"attempt", run.attempt}, {"items", std::move(items)}, {"next_cursor", nullptr}});
}

}  // namespace

void add_rank_routes(http::Router& router, Service& service) {
  router.add("GET", "/api/v1/runs/{run}/ranks", http::Scope::read,
             [&service](const http::Request& request) { return list_ranks(service, request); });
}

}  // namespace babelring::api

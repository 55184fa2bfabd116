#include <map>

#include "base/clock.h"
#include "base/records/library_versions.h"
#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/store/ranks.h"

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

}  // namespace babelring::api

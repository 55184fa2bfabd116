#include <algorithm>
#include <array>
#include <string_view>

#include "server/api/service.h"

namespace babelring::api {
namespace {

struct LanePlace {
  std::string_view method, path;
  http::Lane lane;
};

constexpr std::array<LanePlace, 16> lane_places = {{
    {"POST", "/api/v1/runs/{run}/heartbeat", http::Lane::heartbeat},
    {"POST", "/api/v1/runs/{run}/records", http::Lane::ingest},
    {"GET", "/readyz", http::Lane::health},
    {"GET", "/api/v1/runs/{run}/metrics", http::Lane::query},
    {"GET", "/api/v1/runs/{run}/metrics/{key}", http::Lane::query},
    {"GET", "/api/v1/runs/{run}/metrics.csv", http::Lane::query},
    {"GET", "/api/v1/runs/{run}/series", http::Lane::query},
    {"GET", "/api/v1/runs/{run}/verdict", http::Lane::query},
    {"GET", "/api/v1/runs/{run}/logs", http::Lane::query},
    {"GET", "/api/v1/runs/{run}/evals", http::Lane::query},
    {"GET", "/api/v1/audit", http::Lane::query},
    {"GET", "/api/v1/audit.jsonl", http::Lane::query},
    {"POST", "/api/v1/metrics/query", http::Lane::query},
    {"POST", "/api/v1/admin/backup", http::Lane::query},
    {"POST", "/api/v1/runs", http::Lane::process},
    {"POST", "/api/v1/runs:validate", http::Lane::process},
}};

}  // namespace

http::Lane lane_of(const http::Route& route) {
  const auto* place = std::find_if(lane_places.begin(), lane_places.end(), [&](const LanePlace& one) {
    return one.method == route.method && one.path == route.path;
  });
  return place == lane_places.end() ? http::Lane::ordinary : place->lane;
}

}  // namespace babelring::api

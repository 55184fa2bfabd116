#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/store/series/key_summaries.h"
#include "server/store/series/series.h"

namespace babelring::api {
http::Response list_metric_keys(Service& service, const http::Request& request) {
  const std::int64_t rank = integer_query(request, "rank", 0, max_rank, 0);
  auto reader = query_reader(service, request);
  const store::RunRow run = require_run(*reader, request);
  json::array items;
  for (const store::KeySummary& key : store::summarise_keys(*reader, run.number, rank)) {
    items.push_back({{"key", key.key},
                     {"aggregate", store::to_string(store::rank_aggregate(key.key))},
                     {"count", key.count},
                     {"first", key.first},
                     {"last", key.last},
                     {"min", key.min},
                     {"min_step", key.min_step},
                     {"max", key.max},
                     {"max_step", key.max_step}});
  }
  return json_response(json::object{{"rank", rank}, {"items", std::move(items)}, {"next_cursor", nullptr}});
}

}  // namespace babelring::api

#include "server/api/run_health.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "nmt/base/clock.h"
#include "server/api/answers.h"

namespace babelring::api {
namespace {

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

}  // namespace

bool is_stale(const store::RunRow& run, std::int64_t now_ms) {
  return run.state == "running" && now_ms - run.updated_ms > stale_after_ms;
}

verdict::Health run_health(const store::RunRow& run, std::int64_t now_ms) {
  const bool stale = is_stale(run, now_ms);
  return verdict::health_of({verdict::judge_state({.state = run.state,
                                                   .detail = run.detail,
                                                   .last_error = {},
                                                   .update = run.last.step,
                                                   .silent_since = stale ? format_rfc3339(run.updated_ms) : "",
                                                   .resumable = run.profile != "external"})});
}

json::object health_item(const verdict::Health& health) {
  json::array parts;
  for (const auto& [topic, level, text, action] : health.parts) {
    parts.push_back({{"topic", verdict::to_string(topic)},
                     {"level", verdict::to_string(level)},
                     {"text", text},
                     {"action", text_or_null(action)}});
  }
  return {{"level", verdict::to_string(health.level)},
          {"headline", health.headline},
          {"action", text_or_null(health.action)},
          {"parts", std::move(parts)}};
}

}  // namespace babelring::api

#include <algorithm>
#include <array>

#include "base/records/records.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"

namespace babelring::api {
namespace {

constexpr std::array<std::string_view, 7> known_topics = {"metrics", "state", "checkpoint", "eval",
                                                          "log",     "alert", "artifact"};

std::set<std::string> topics_of(const http::Request& request) {
  std::set<std::string> topics;
  for (std::string& topic : list_query(request, "topic")) {
    if (std::find(known_topics.begin(), known_topics.end(), topic) == known_topics.end()) {
      throw http::Problem(
          400, "bad_parameter",
          fmt::format("topic: expected metrics, state, checkpoint, eval, log, alert or artifact, found '{}'", topic));
    }
    topics.insert(std::move(topic));
  }
  return topics;
}

}  // namespace

http::Response stream_events(Service& service, const http::Request& request) {
  const std::string run = request.query_value("run").value_or("");
  if (!run.empty()) require_run_id(run);
  std::string after(request.header("last-event-id"));
  if (after.empty()) after = request.query_value("after").value_or("");
  auto source =
      service.events.subscribe(run, topics_of(request), after, request.caller ? request.caller->token : std::string());
  if (!source) {
    throw http::Problem(503, "too_many_streams", "too many event streams are open: at most 8 per token, 10,000 in all");
  }
  http::Response response;
  response.set("Content-Type", "text/event-stream").set("Cache-Control", "no-store").set("X-Accel-Buffering", "no");
  response.body = std::move(source);
  return response;
}

}  // namespace babelring::api

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/log.h"
#include "base/records/records.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/api/series_answer.h"
#include "server/http/fields.h"
#include "server/store/logs.h"

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
  require_reach(request, run);
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

namespace {

constexpr std::size_t max_answer_bytes = std::size_t{1} << 20;
constexpr std::size_t max_text_bytes = std::size_t{64} << 10;  // per line

enum class LogForm { json, ndjson, text };

LogForm log_form_of(const http::Request& request) {
  static const std::array<std::string, 3> types = {"application/json", "application/x-ndjson", "text/plain"};
  return static_cast<LogForm>(http::accepted_type(request.header("accept"), types).value_or(0));
}

/// Truncates a line that is too long for a response, between characters.
std::string shown_text(const std::string& text) {
  if (text.size() <= max_text_bytes) return text;
  std::size_t end = max_text_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + fmt::format(" [{} more bytes]", text.size() - end);
}

}  // namespace

json::object line_item(const store::LogRow& log) {
  return {{"line", log.line},       {"rank", log.rank},
          {"attempt", log.attempt}, {"time", format_rfc3339(log.time_ms)},
          {"level", log.level},     {"text", shown_text(log.text)}};
}

namespace {

std::string text_line(const store::LogRow& log) {
  return fmt::format("{} [rank {}] {}: {}\n", format_rfc3339(log.time_ms), log.rank, log.level,
                     printable(shown_text(log.text)));
}

/// Drops lines beyond the size limit of a response: the newest ones when paging forward, the oldest ones of a tail.
json::array bounded_items(const std::vector<store::LogRow>& lines, bool tail, std::int64_t& next) {
  json::array items;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const store::LogRow& line = lines[tail ? lines.size() - 1 - i : i];
    json::object item = line_item(line);
    bytes += to_text(item).size() + 1;
    if (bytes > max_answer_bytes - 256) {
      if (!tail) next = line.line - 1;
      break;
    }
    items.push_back(std::move(item));
  }
  if (tail) std::reverse(items.begin(), items.end());
  return items;
}

store::LogFilter filter_of(const http::Request& request) {
  store::LogFilter filter;
  filter.rank = integer_query(request, "rank", 0, max_rank);
  filter.level = choice_query(request, "level", {"", "debug", "info", "warn", "error"});
  filter.text = request.query_value("q").value_or("");
  const auto after = integer_query(request, "after", 0, max_number);
  filter.after = after ? *after : read_cursor(request).first;
  // Without a position, return the newest lines; with one, the lines after it.
  filter.tail = !after && !request.query_value("cursor");
  const std::int64_t last = integer_query(request, "tail", 1, 5000, 200);
  const std::int64_t next = integer_query(request, "limit", 1, 5000, 500);
  filter.limit = filter.tail ? last : next;
  return filter;
}

}  // namespace

http::Response list_logs(Service& service, const http::Request& request) {
  const store::LogFilter filter = filter_of(request);
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  store::LogPage page = store::read_logs(*reader, run.number, filter);
  json::array items = bounded_items(page.lines, filter.tail, page.next);
  // Logs grow, so return a next position even at the current end.
  const std::string after = fmt::format("</api/v1/runs/{}/logs?after={}>; rel=\"next\"", run.id, page.next);
  const LogForm form = log_form_of(request);
  if (form == LogForm::json) {
    return page_response(request, std::move(items), make_cursor(page.next, 0)).set("Vary", "Accept");
  }
  std::string text;
  for (const json::value& item : items) {
    if (form == LogForm::ndjson) text += to_text(item) + '\n';
  }
  const std::size_t left_out = page.lines.size() - items.size();
  for (std::size_t i = 0; form == LogForm::text && i < items.size(); ++i) {
    text += text_line(page.lines[i + (filter.tail ? left_out : 0)]);
  }
  const char* type = form == LogForm::ndjson ? "application/x-ndjson" : "text/plain; charset=utf-8";
  return http::text_response(200, type, std::move(text)).set("Vary", "Accept").set("Link", after);
}

}  // namespace babelring::api

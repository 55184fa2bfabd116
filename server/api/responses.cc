#include "server/api/responses.h"

#include <charconv>
#include <sstream>

#include "base/clock.h"
#include "base/records.h"

namespace babelring::api {
namespace {

constexpr const char* bad_cursor_detail = "cursor: not a cursor from this server";

std::string hex_of_text(std::string_view text) {
  std::string hex;
  for (const unsigned char c : text) hex += fmt::format("{:02x}", c);
  return hex;
}

std::optional<std::string> text_of_hex(std::string_view hex) {
  std::string text;
  for (; hex.size() >= 2; hex.remove_prefix(2)) {
    unsigned char byte = 0;
    if (std::from_chars(hex.data(), hex.data() + 2, byte, 16).ptr != hex.data() + 2) return std::nullopt;
    text += static_cast<char>(byte);
  }
  if (!hex.empty() || text.empty()) return std::nullopt;
  return text;
}

}  // namespace

http::Response json_response(const json::value& value) {
  return http::text_response(200, "application/json", to_text(value));
}

http::Response page_response(const http::Request& request, json::array items, std::optional<std::string> next,
                             json::object more) {
  json::object page = {{"items", std::move(items)}, {"next_cursor", nullptr}};
  for (auto& member : more) page[member.key()] = std::move(member.value());
  if (next) page["next_cursor"] = *next;
  http::Response response = json_response(page);
  if (!next) return response;
  // The request's query, verbatim except for the cursor.
  const auto question = request.target.find('?');
  std::string link = "<" + request.target.substr(0, question) + "?cursor=" + *next;
  std::istringstream words(question == std::string::npos ? "" : request.target.substr(question + 1));
  for (std::string word; std::getline(words, word, '&');) {
    if (!word.empty() && word != "cursor" && !word.starts_with("cursor=")) link += '&' + word;
  }
  std::erase_if(link,
                [](char c) { return c == '>' || c == '"'; });  // not valid in an address; they would end the field
  response.set("Link", link + ">; rel=\"next\"");
  return response;
}

std::optional<std::int64_t> parse_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> integer_query(const http::Request& request, const std::string& name, std::int64_t low,
                                          std::int64_t high) {
  const auto text = request.query_value(name);
  if (!text || text->empty()) return std::nullopt;
  const auto value = parse_integer(*text);
  if (!value || *value < low || *value > high) {
    throw http::Problem(400, "bad_parameter",
                        fmt::format("{}: expected an integer from {} to {}, found '{}'", name, low, high, *text));
  }
  return value;
}

std::int64_t integer_query(const http::Request& request, const std::string& name, std::int64_t low, std::int64_t high,
                           std::int64_t absent) {
  return integer_query(request, name, low, high).value_or(absent);
}

std::optional<bool> flag_query(const http::Request& request, const std::string& name) {
  const auto text = request.query_value(name);
  if (!text || text->empty()) return std::nullopt;
  if (*text == "true" || *text == "false") return *text == "true";
  throw http::Problem(400, "bad_parameter", fmt::format("{}: expected true or false, found '{}'", name, *text));
}

std::int64_t page_limit(const http::Request& request) {
  return integer_query(request, "limit", 1, 500, 50);
}

std::string make_cursor(std::int64_t a, std::int64_t b) {
  return fmt::format("p{:x}.{:x}", a, b);
}

std::pair<std::int64_t, std::int64_t> read_cursor(const http::Request& request) {
  const auto text = request.query_value("cursor");
  if (!text) return {0, 0};
  std::int64_t a = 0, b = 0;
  const auto dot = text->find('.');
  const bool formed = text->starts_with('p') && dot != std::string::npos;
  const char* end = text->data() + text->size();
  if (formed && std::from_chars(text->data() + 1, text->data() + dot, a, 16).ptr == text->data() + dot &&
      std::from_chars(text->data() + dot + 1, end, b, 16).ptr == end && dot + 1 < text->size() && a >= 0 && b >= 0) {
    return {a, b};
  }
  throw http::Problem(400, "bad_cursor", bad_cursor_detail);
}

NamedPage::NamedPage(const http::Request& request) : request_(request), limit_(page_limit(request)) {
  const auto cursor = request.query_value("cursor");
  if (!cursor) return;
  const auto name = text_of_hex(cursor->starts_with('n') ? std::string_view(*cursor).substr(1) : "-");
  if (!name) throw http::Problem(400, "bad_cursor", bad_cursor_detail);
  after_ = *name;
}

bool NamedPage::takes(std::string_view name) {
  if (name <= after_) return false;
  const bool full = static_cast<std::int64_t>(items_.size()) >= limit_;
  if (full) more_ = true;
  if (!full) last_ = name;
  return !full;
}

http::Response NamedPage::response() {
  return page_response(request_, std::move(items_),
                       more_ ? std::optional('n' + hex_of_text(last_)) : std::optional<std::string>());
}

store::Readers::Lease query_reader(Service& service, const http::Request& request) {
  return service.store.reader(store::Store::For::queries, [&request] { return request.abandoned(); });
}

store::RunRow require_run(store::Reader& reader, const http::Request& request) {
  const std::string& id = request.parameter("run");
  auto run = valid_id(id, 'r') ? store::find_run(reader, id) : std::nullopt;
  if (!run) throw http::Problem(404, "run_unknown", fmt::format("no run '{}'", id));
  return std::move(*run);
}

json::value time_or_null(std::optional<std::int64_t> time_ms) {
  return time_ms ? json::value(format_rfc3339(*time_ms)) : json::value(nullptr);
}

json::value integer_or_null(std::optional<std::int64_t> value) {
  return value ? json::value(*value) : json::value(nullptr);
}

json::object eval_item(const store::EvalRow& eval) {
  json::object item = {{"id", eval.id},
                       {"run", eval.run},
                       {"time", format_rfc3339(eval.time_ms)},
                       {"time_ms", eval.time_ms},
                       {"sample_count", eval.sample_count},
                       {"teacher_forced_bleu", nullptr}};  // older workers do not report it
  const auto body = parse_json(eval.body);
  for (const auto& [name, value] : body.value().as_object()) item.insert_or_assign(name, value);
  if (!eval.samples.empty()) item["samples"] = parse_json(eval.samples).value();
  return item;
}

json::object checkpoint_item(const store::CheckpointRow& checkpoint) {
  const auto files = parse_json(checkpoint.files);
  std::int64_t bytes = 0;
  json::value config_digest = nullptr;
  for (const json::value& file : files.value().as_array()) {
    const json::object& facts = file.as_object();
    bytes += facts.at("size").to_number<std::int64_t>();
    if (facts.at("name") == "config.yaml") config_digest = facts.at("sha256");
  }
  return {{"id", checkpoint.id},
          {"run", checkpoint.run},
          {"update", checkpoint.step},
          {"name", checkpoint.name},
          {"created_at", format_rfc3339(checkpoint.created_ms)},
          {"removed", checkpoint.removed},
          {"complete", !checkpoint.removed && checkpoint.files != "[]"},
          {"pinned", checkpoint.pinned},
          {"best", checkpoint.best},
          {"sacrebleu", checkpoint.sacrebleu},
          {"loss", checkpoint.loss},
          {"bytes", bytes},
          {"write_seconds", checkpoint.write_seconds},
          {"version", checkpoint.version.empty() ? json::value(nullptr) : json::value(checkpoint.version)},
          {"world_size", checkpoint.world_size > 0 ? json::value(checkpoint.world_size) : nullptr},
          {"config_sha256", std::move(config_digest)},
          {"files", files.value()}};
}

}  // namespace babelring::api

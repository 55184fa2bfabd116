#include "server/api/responses.h"

#include <sstream>

#include "base/clock.h"
#include "base/json.h"
#include "base/names.h"
#include "base/records/records.h"

namespace babelring::api {

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

NamedPage::NamedPage(const http::Request& request)
    : request_(request), limit_(page_limit(request)), after_(read_name_cursor(request)) {}

bool NamedPage::takes(std::string_view name) {
  if (name <= after_) return false;
  const bool full = static_cast<std::int64_t>(items_.size()) >= limit_;
  if (full) more_ = true;
  if (!full) last_ = name;
  return !full;
}

http::Response NamedPage::response() {
  return page_response(request_, std::move(items_), more_ ? std::optional(make_name_cursor(last_)) : std::nullopt);
}

store::Readers::Lease query_reader(Service& service, const http::Request& request) {
  return service.store.reader(store::Store::For::queries, [&request] { return request.abandoned(); });
}

http::Problem no_run(const std::string& id) {
  return {404, "run_unknown", fmt::format("no run '{}'", id)};
}

void require_reach(const http::Request& request, std::string_view run) {
  if (!request.caller || request.caller->run.empty() || request.caller->run == run) return;
  throw http::Problem(403, "run_forbidden", fmt::format("this token is for run {} alone", request.caller->run));
}

void require_run_id(const std::string& id) {
  if (!valid_id(id, 'r')) throw no_run(id);
}

store::RunRow require_run(store::Reader& reader, const http::Request& request) {
  return require_run(reader, request.parameter("run"));
}

store::RunRow require_run(store::Reader& reader, const std::string& id) {
  auto run = valid_id(id, 'r') ? store::find_run(reader, id) : std::nullopt;
  if (!run) throw no_run(id);
  return std::move(*run);
}

json::value time_or_null(std::optional<std::int64_t> time_ms) {
  return time_ms ? json::value(format_rfc3339(*time_ms)) : json::value(nullptr);
}

json::value integer_or_null(std::optional<std::int64_t> value) {
  return value ? json::value(*value) : json::value(nullptr);
}

json::value number_or_null(std::optional<double> value) {
  return value ? json::value(*value) : json::value(nullptr);
}

json::value positive_or_null(std::int64_t value) {
  return value > 0 ? json::value(value) : json::value(nullptr);
}

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
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
  const auto nll = get_number(item, "nll"), entropy = get_number(item, "entropy");
  if (nll && entropy) item["excess"] = *nll - *entropy;
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
          {"version", text_or_null(checkpoint.version)},
          {"world_size", positive_or_null(checkpoint.world_size)},
          {"config_sha256", std::move(config_digest)},
          {"files", files.value()}};
}

}  // namespace babelring::api

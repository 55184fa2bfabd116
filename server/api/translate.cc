#include <boost/json/array.hpp>
#include <memory>

#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/translate/pool.h"

namespace babelring::api {
namespace {

constexpr std::size_t max_lines = 32;
constexpr std::int64_t max_subwords = 512;  // per line
constexpr std::int64_t max_beam = 12;
constexpr std::size_t max_line_bytes = 16 << 10;

json::array read_lines(Body& body) {
  const json::value* text = body.value("text");
  if (text == nullptr || !text->is_array()) Body::refuse("text", "expected an array of lines");
  const json::array& lines = text->get_array();
  if (lines.empty() || lines.size() > max_lines) {
    Body::refuse("text", fmt::format("found {} lines, expected 1 to {}", lines.size(), max_lines));
  }
  for (const json::value& line : lines) {
    if (!line.is_string()) Body::refuse("text", "expected an array of strings");
    const std::string_view words(line.get_string());
    if (words.find_first_of("\r\n") != std::string_view::npos)
      Body::refuse("text", "expected lines without line breaks");
    if (words.size() > max_line_bytes) {
      throw http::Problem(422, "too_long",
                          fmt::format("text: a line of {} bytes, expected at most {}", words.size(), max_line_bytes));
    }
  }
  return lines;
}

/// Builds the request line for the translator, which gives omitted options the defaults of `nmt translate`. It knows
/// them all, with their ranges, and refuses others; here are the limits of a server that many share. A request's size
/// bounds the rest.
json::object read_request(const http::Request& request) {
  Body body(request);
  json::object line = {{"text", read_lines(body)}, {"max_subwords", max_subwords}};
  const auto beam = body.integer("beam", 1, max_beam);
  const auto nbest = body.integer("nbest", 1, beam.value_or(max_beam));
  if (beam) line["beam"] = *beam;
  if (nbest) line["nbest"] = *nbest;
  for (const char* name : {"id", "max_subwords", "most_pieces", "n_best"}) {
    if (body.value(name) != nullptr) Body::refuse(name, "unknown member");
  }
  for (auto& [name, value] : body.rest()) line[name] = std::move(value);
  return line;
}

http::Problem problem_of(const translate::JobOutcome& outcome) {
  using Status = translate::JobOutcome::Status;
  switch (outcome.status) {
    case Status::refused:
      return outcome.code == "too_long" ? http::Problem(422, "too_long", outcome.detail)
                                        : http::Problem(400, "bad_body", outcome.detail);
    case Status::unavailable:
      return {503, "no_translator", outcome.detail};
    case Status::busy:
      return {503, "busy", outcome.detail};
    case Status::late:
      return {503, "translator_late", outcome.detail};
    case Status::damaged:
      return {409, "damaged", outcome.detail};
    default:
      return {500, "translator_failed", outcome.detail};
  }
}

http::Response response_of(const http::Request& request, const std::string& checkpoint, translate::JobOutcome outcome) {
  if (outcome.status != translate::JobOutcome::Status::done)
    return http::problem_response(problem_of(outcome), request.id);
  json::object answer = {{"checkpoint", checkpoint}};
  for (auto& [name, value] : outcome.answer) answer.insert_or_assign(name, std::move(value));
  return json_response(answer);
}

}  // namespace

void translate_text(Service& service, const std::shared_ptr<const http::Request>& request, const http::Reply& reply) {
  const store::CheckpointRow checkpoint =
      artifacts::require_checkpoint(service.store, request->parameter("checkpoint"));
  json::object line = read_request(*request);
  std::filesystem::path folder = artifacts::folder_of(service.checkpoint_roots, checkpoint);
  if (service.translators == nullptr) throw http::Problem(503, "no_translator", "this server does not translate");
  service.translators->translate(
      checkpoint.id, std::move(folder), std::move(line),
      [request, id = checkpoint.id, reply, held = service.downloads.hold(checkpoint.id)](
          translate::JobOutcome outcome) { reply(response_of(*request, id, std::move(outcome))); },
      {request->owner(), [request] { return request->abandoned(); }});
}

}  // namespace babelring::api

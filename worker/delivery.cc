#include "worker/delivery.h"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <string_view>

#include "base/json.h"
#include "base/json_get.h"
#include "client/problem.h"

namespace babelring {
namespace {

// The codes by which the server refuses a batch for good, and a token (server/api/openapi.yaml).
constexpr std::array<std::string_view, 7> refusals = {
    "record_refused", "attempt_refused", "rank_refused", "sequence_refused", "bad_json", "bad_body", "too_large"};
constexpr std::array<std::string_view, 4> bars = {"token_missing", "token_invalid", "run_forbidden",
                                                  "scope_insufficient"};

bool is_among(const auto& codes, std::string_view code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

/// Whether the body counts all records of the batch, as new or as known.
bool confirms(const HttpResponse& answer, std::size_t sent) {
  const auto body = parse_json(answer.body);
  if (!body.ok() || !body->is_object()) return false;
  const json::object& counts = body->get_object();
  if (!counts.contains("accepted") || !counts.contains("duplicates")) return false;
  return get_integer(counts, "accepted") + get_integer(counts, "duplicates") == static_cast<std::int64_t>(sent);
}

}  // namespace

Delivery delivery_of(const HttpResponse& answer, std::size_t sent) {
  if (answer.success()) return confirms(answer, sent) ? Delivery::stored : Delivery::again;
  const std::string code = read_problem(answer).code;
  const int status = answer.status;
  if ((status == 400 || status == 409 || status == 413 || status == 422) && is_among(refusals, code)) {
    return Delivery::refused;
  }
  if (status == 413) return Delivery::oversized;
  return (status == 401 || status == 403) && is_among(bars, code) ? Delivery::barred : Delivery::again;
}

std::string advice(const HttpResponse& answer, Delivery delivery) {
  if (delivery == Delivery::barred) {
    return "; give a token whose scope is ingest by --token-file FILE or BABELRING_TOKEN and start again with the same "
           "--run-dir to have them sent";
  }
  return answer.success() ? ", which does not confirm the records: is this a Babelring server?" : "";
}

std::string explain(const HttpResponse& answer) {
  const Problem problem = read_problem(answer);
  std::string text = std::to_string(problem.status);
  if (!problem.title.empty()) text += " " + problem.title;
  if (!problem.detail.empty()) text += (problem.title.empty() ? " " : ": ") + problem.detail;
  return text;
}

}  // namespace babelring

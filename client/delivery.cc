#include "client/delivery.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <string_view>

#include "base/json.h"
#include "client/api_client.h"

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
  if (status == 409 && code == "records_missing") return Delivery::missing;
  if (status == 413) return Delivery::oversized;
  return (status == 401 || status == 403) && is_among(bars, code) ? Delivery::barred : Delivery::again;
}

PostedBatch post_records(HttpClient& client, std::span<const Record> records, std::int64_t confirmed) {
  const RecordHeader& origin = records.front().header;
  json::object batch = batch_to_json(origin.attempt, origin.rank, origin.host, records);
  if (confirmed > 0) batch["confirmed"] = confirmed;
  const Result<HttpResponse> answer = client.post(fmt::format("/api/v1/runs/{}/records", origin.run), to_text(batch));
  if (!answer.ok()) return {.delivery = Delivery::again, .why = answer.error()};
  PostedBatch posted{.delivery = delivery_of(*answer, records.size()), .why = "", .retry_after = answer->retry_after};
  if (posted.delivery == Delivery::stored) {
    posted.accepted = get_integer(parse_json(answer->body).value().as_object(), "accepted");
    return posted;
  }
  posted.why = explain(*answer);
  if (posted.delivery == Delivery::refused) return posted;
  posted.why = "answered " + posted.why + advice(*answer, posted.delivery);
  if (posted.delivery == Delivery::missing) {
    posted.stored = get_integer(parse_json(answer->body).value().as_object(), "stored");
  }
  return posted;
}

std::string advice(const HttpResponse& answer, Delivery delivery) {
  if (delivery == Delivery::barred) {
    return "; give a token whose scope is ingest by --token-file FILE or BABELRING_TOKEN, to a start with the same "
           "--run-dir or to `nmt run sync`, which send them";
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

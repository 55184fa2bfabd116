#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/records/records.h"
#include "client/http_client.h"

namespace babelring {

/// The result of posting a batch of records. Only a Babelring server's own answer decides over records: a proxy, a
/// log-in page or another program may answer any status.
enum class Delivery {
  stored,
  refused,    // because of their content or size; do not retry
  oversized,  // by a proxy that limits requests; smaller batches may pass
  barred,     // for the token; keep the records and retry, but not once the run has ended
  missing,    // the server has lost records that it had confirmed; send what follows its newest one
  again,      // for another reason (server, proxy); keep the records and retry
};

/// Classifies the response to a batch of `sent` records: stored if it counts all of them, refused or barred by the code
/// of its problem.
Delivery delivery_of(const HttpResponse& answer, std::size_t sent);

/// The answer to a batch of records.
struct PostedBatch {
  Delivery delivery = Delivery::again;
  std::string why;            // the reason, on one line; empty if stored
  std::int64_t accepted = 0;  // of stored: records that were new to the server
  std::int64_t stored = 0;    // of missing: the sequence of the newest record that the server has
  std::optional<std::chrono::seconds> retry_after = {};
};

/// Posts records of one run, attempt and rank. `confirmed`: the sequence of the newest record that the server has
/// confirmed; 0: none.
PostedBatch post_records(HttpClient& client, std::span<const Record> records, std::int64_t confirmed);

/// Advice for the user about a response, as "; give …"; empty if there is none.
std::string advice(const HttpResponse& answer, Delivery delivery);

/// One printable line with the status and what came: the title and detail of a problem, the title of a page, where a
/// redirect leads, or the body's first bytes: "422 Unprocessable Content: records[0]: update: expected at least 1".
std::string explain(const HttpResponse& answer);

}  // namespace babelring

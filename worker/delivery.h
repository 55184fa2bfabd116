#pragma once

#include <string>

#include "client/http_client.h"

namespace babelring {

/// The result of posting a batch of records.
enum class Delivery {
  stored,
  refused,  // because of their content or size; do not retry
  barred,   // for the token; keep the records and retry, but not once the run has ended
  again,    // for another reason (server, proxy); keep the records and retry
};

/// Classifies the HTTP status of the response.
Delivery delivery_of(int status);

/// Advice for the user about an HTTP status, as "; give …"; empty if there is none.
std::string advice(int status);

/// One printable line with the status and the body's title and detail (problem+json) or first bytes (other bodies):
/// "422 Unprocessable Content: records[0]: update: expected at least 1".
std::string explain(const HttpResponse& answer);

}  // namespace babelring

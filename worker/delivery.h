#pragma once

#include <string>

#include "client/http_client.h"

namespace babelring {

/// What the server's answer to a batch means for its records.
enum class Delivery {
  stored,
  refused,  // for what they say, or for their size: sending the same again is of no use
  again,    // for reasons of the server's, its guards' or a proxy's, which may pass or be mended while records are kept
};

Delivery delivery_of(int status);

/// What the user can do about an answer, where that is known, as "; give …"; else empty.
std::string advice(int status);

/// The status and what the body says about it, the title and detail of a problem+json or its first bytes, in one
/// printable line: "422 Unprocessable Content: records[0]: update: expected at least 1".
std::string explain(const HttpAnswer& answer);

}  // namespace babelring

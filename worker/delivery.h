#pragma once

#include <string>

#include "client/http_client.h"

namespace babelring {

/// What the server's answer to a batch means for its records.
enum class Delivery {
  stored,
  refused,  // for what they say, or for their size: sending the same again is of no use
  again,    // refused for a reason outside them (server, permission, proxy), which may pass while they are kept
};

Delivery delivery_of(int status);

/// What the user can do about an answer, as "; give …"; empty where nothing is known.
std::string advice(int status);

/// The status and what the body says about it, the title and detail of a problem+json or its first bytes, in one
/// printable line: "422 Unprocessable Content: records[0]: update: expected at least 1".
std::string explain(const HttpAnswer& answer);

}  // namespace babelring

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/problem.h"

namespace babelring::http {

/// Checks the query parameters of a request target against the `known` ones. Returns a problem for an unknown or
/// repeated parameter, otherwise nothing.
std::optional<Problem> query_fault(const std::string& target, const std::vector<std::string>& known);

}  // namespace babelring::http

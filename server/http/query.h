#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/problem.h"

namespace babelring::http {

/// What is wrong with the query of a request target that takes the parameters `known`: one that is not among them, or
/// one that is given twice.
std::optional<Problem> query_fault(const std::string& target, const std::vector<std::string>& known);

}  // namespace babelring::http

#pragma once

#include <vector>

#include "base/json.h"

namespace babelring::api {

/// An operation's parameters, references to `contract` resolved.
std::vector<const json::object*> parameters_of(const json::object& contract, const json::object& operation);

/// Writes the problems of server/api/openapi.yaml where OpenAPI wants them: the codes that an operation lists under
/// x-errors, and those that x-problems gives to its kind, become `responses` by status, each with the enum of its
/// codes; `code` of the schema Problem becomes the enum of all. Removes x-problems and x-errors. Throws Failure naming
/// what is not as it must be.
void write_problems(json::object& contract);

}  // namespace babelring::api

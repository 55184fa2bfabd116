#pragma once

#include <vector>

#include "base/json.h"

namespace babelring::api {

/// An operation's parameters with references into `contract` resolved.
std::vector<const json::object*> parameters_of(const json::object& contract, const json::object& operation);

/// Expands the problems of server/api/openapi.yaml into OpenAPI. The codes that an operation lists under x-errors, and
/// those that x-problems assigns to its kind, become `responses` by status, each with an enum of its codes; `code` of
/// the schema Problem becomes the enum of all. Removes x-problems and x-errors. Throws Failure for an inconsistent
/// contract.
void write_problems(json::object& contract);

}  // namespace babelring::api

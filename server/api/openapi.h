#pragma once

#include <optional>
#include <string>
#include <string_view>
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

/// The served contract, from the text of server/api/openapi.yaml. Throws Failure if the text is not YAML, has a
/// non-finite number, or refers to an undescribed problem.
json::value parse_contract(std::string_view yaml);

/// The built-in contract. As a tree it takes more than a megabyte.
class Contract {
 public:
  Contract();
  std::string text() const { return to_text(document_); }
  /// The names of an operation's query parameters; nullopt if it is not in the contract.
  std::optional<std::vector<std::string>> query_names(std::string_view method, const std::string& path) const;
  /// The media types of an operation's successful responses, in the contract's order. Empty if they have no body or the
  /// operation is not in the contract.
  std::vector<std::string> answer_types(std::string_view method, const std::string& path) const;

 private:
  /// Null if the contract does not have the operation.
  const json::object* find_operation(std::string_view method, const std::string& path) const;
  json::value document_;
};

}  // namespace babelring::api

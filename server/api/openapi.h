#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace babelring::api {

/// The contract as it is served, of the text of server/api/openapi.yaml. Throws Failure where that is not YAML, has a
/// number that is not finite, or names a problem that it does not describe.
json::value parse_contract(std::string_view yaml);

/// The contract that is built in. As a tree it takes more than a megabyte.
class Contract {
 public:
  Contract();
  std::string text() const { return to_text(document_); }
  /// The query parameters that an operation takes; nothing if it is not in the contract.
  std::optional<std::vector<std::string>> query_names(std::string_view method, const std::string& path) const;
  /// The media types of an operation's successes, in the contract's order; empty where these have no body, or it is not
  /// in the contract.
  std::vector<std::string> answer_types(std::string_view method, const std::string& path) const;

 private:
  /// Null where the contract has none.
  const json::object* find_operation(std::string_view method, const std::string& path) const;
  json::value document_;
};

}  // namespace babelring::api

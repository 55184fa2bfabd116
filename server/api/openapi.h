#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace babelring::api {

/// The contract, server/api/openapi.yaml, as JSON. Throws Failure if the embedded text is not YAML.
std::string openapi_json();
/// The media types of an operation's successes, in the contract's order; empty where these have no body, or it is not
/// in the contract.
std::vector<std::string> answer_types(std::string_view method, const std::string& path);

}  // namespace babelring::api

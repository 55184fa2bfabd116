#pragma once

#include <string>
#include <string_view>

namespace babelring::api {

/// The contract as written: server/api/openapi.yaml, embedded.
std::string_view openapi_yaml();
/// The same as JSON. Throws Failure if the embedded text is not YAML.
std::string openapi_json();

}  // namespace babelring::api

#pragma once

#include <string>

namespace babelring::api {

/// The contract, server/api/openapi.yaml, as JSON. Throws Failure if the embedded text is not YAML.
std::string openapi_json();

}  // namespace babelring::api

#pragma once

#include <string>

#include "client/api_client.h"

namespace babelring {

/// Finds the run that a user named. Tries in this order: id, prefix of an id (r_…), name, prefix of a name. Throws
/// Failure if no run matches, or if several match, which it lists.
json::object find_run(ApiClient& api, const std::string& named);

}  // namespace babelring

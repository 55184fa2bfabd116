#pragma once

#include <string>

#include "client/api_client.h"

namespace babelring {

/// The run that a user means: by its id, the beginning of its id (r_…), its name, or the beginning of its name, in this
/// order, if just one fits. Throws Failure saying that none does, or which several do.
json::object find_run(ApiClient& api, const std::string& named);

}  // namespace babelring

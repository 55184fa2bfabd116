#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/api_client.h"

namespace babelring {

/// A change of a run; absent members stay.
struct RunEdit {
  std::optional<std::string> name, note;
  std::vector<std::string> labels;          // key=value: set
  std::vector<std::string> removed_labels;  // keys
  std::optional<std::int64_t> max_restarts;
};

/// The merge patch (RFC 7396) of a change. Throws UsageFailure on a label that is none, and if nothing changes.
json::object edit_patch(const RunEdit& edit);

/// Sends a merge patch for the run as it is now, and returns the changed run. Throws ServerRefusal 412 if another
/// client changes it at the same moment.
json::object patch_run(ApiClient& api, const std::string& run, const json::object& patch);

/// The reasons that the server knows for a run being as it is: `run` (with its health), `verdict` (null if there is
/// none), its open `alerts`, and the newest `transitions`, `attempts` and `log` lines, oldest first.
json::object explain_run(ApiClient& api, const json::object& run);

}  // namespace babelring

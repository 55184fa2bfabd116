#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/api_client.h"

namespace babelring {

struct SubmitRequest {
  std::string config;  // YAML
  std::string name;    // empty: the name in the configuration
  std::string profile;
  std::optional<std::int64_t> world_size, max_restarts;
  std::string resume_from;          // a checkpoint's id
  std::vector<std::string> labels;  // key=value
};

/// The body of POST /runs. Throws UsageFailure on a label without '='.
json::object submit_body(const SubmitRequest& request);

/// Starts the run. Retries with an idempotency key, so that it starts only once. Returns the run.
json::object submit_run(ApiClient& api, const SubmitRequest& request);

}  // namespace babelring

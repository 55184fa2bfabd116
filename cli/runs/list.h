#pragma once

#include <string>
#include <vector>

#include "cli/runs/screen.h"
#include "client/api_client.h"

namespace babelring {

/// Prints a run as lines "name  value", at the end the newest of `evals`, the run's evaluations, on each set other than
/// that of its last validation. The losses by corpus are of `metrics`, the answer with its metric keys. Omits absent
/// members.
void print_run(const json::object& run, const std::vector<json::object>& evals, const json::object& metrics,
               const Screen& screen);

/// Prints a run's health: the headline, the advice, and each part other than the headline.
void print_health(const json::object& health, const Screen& screen);

struct ListRequest {
  std::string state, text;  // empty: any
  bool archived = false;    // these instead of the others
  std::size_t most = 50;
};

/// `nmt run list`: prints runs as a table, or the server's items as one JSON array.
void list_runs(ApiClient& api, const ListRequest& request, bool as_json, const Screen& screen);

/// `nmt run checkpoints`: prints the checkpoints of a run in the same way, newest first.
void list_checkpoints(ApiClient& api, const std::string& run, bool as_json, const Screen& screen);

}  // namespace babelring

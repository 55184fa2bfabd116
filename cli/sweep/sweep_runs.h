#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/api_client.h"

namespace babelring {

/// Labels of a sweep's runs beside their coordinates, whose names are configuration keys.
inline constexpr const char* sweep_label = "sweep";  // the sweep's name
inline constexpr const char* cell_label = "cell";    // SweepCell::id

/// The newest run of each cell of a sweep on the server, by SweepCell::id.
std::map<std::string, json::object> sweep_runs(ApiClient& api, const std::string& sweep);

/// The same. Throws UsageFailure if there is none.
std::map<std::string, json::object> require_sweep_runs(ApiClient& api, const std::string& sweep);

/// "12 succeeded, 2 running", in the order of a run's life.
std::string count_states(const std::map<std::string, json::object>& runs);

/// The number of runs in a state.
std::size_t count_state(const std::map<std::string, json::object>& runs, std::string_view state);

/// True for a run that has ended.
bool has_ended(const json::object& run);

}  // namespace babelring

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/launch/profile.h"

namespace babelring::launch {

/// An error in a configuration.
struct ConfigFault {
  std::string pointer;  // JSON pointer of the key, e.g. /training/stop_after; empty if no key applies
  std::string detail;
  std::int64_t line = 0, column = 0;  // from 1; 0: unknown
};

/// A configuration as resolved and checked by the worker.
struct CheckedConfig {
  std::vector<ConfigFault> faults;  // empty: the configuration is valid
  std::string yaml;                 // resolved
  std::string name;
  std::int64_t max_updates = 0;  // 0: another end condition applies
  std::string data_folder;       // absolute; empty: the data is made on the fly
  std::string start_from;        // absolute; empty: none
  // Estimated memory per rank, keyed by memory_members; empty if the worker made no estimate.
  std::map<std::string, std::int64_t> memory;
  std::vector<std::string> not_estimated;  // parts without an estimate, with the reason
};

/// Units: "parameters" counts learned values, "…_tokens" are tokens of the assumed micro-batch, the others are bytes.
inline constexpr std::array<const char*, 9> memory_members = {"parameters",  "source_tokens", "target_tokens",
                                                              "weights",     "gradients",     "moments",
                                                              "activations", "scratch",       "total"};

/// Runs the profile's worker to check a configuration, so that the server needs no knowledge of training options. The
/// process is limited in time, memory and output. `name` replaces the configuration's run name. Memory is estimated for
/// one of `ranks` ranks. Throws Failure if the worker cannot be run, or soon after `abandoned` (may be empty) becomes
/// true.
CheckedConfig check_config(const Profile& profile, const std::string& yaml, const std::string& name,
                           std::int64_t ranks = 1, std::function<bool()> abandoned = {});

}  // namespace babelring::launch

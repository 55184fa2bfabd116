#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/failure.h"
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

/// The check took longer than its limit: the machine is busy, or a file system does not respond.
class CheckLate : public Failure {
 public:
  using Failure::Failure;
};

/// Reasons to end a check before the worker answers.
struct CheckLimits {
  std::chrono::milliseconds time{60'000};  // the worker runs at low priority, so a busy machine delays it
  std::function<bool()> abandoned = {};    // polled; the check ends once it is true. May be empty
};

/// Runs the profile's worker to check a configuration, so that the server needs no knowledge of training options. The
/// process is limited in time, memory and output. `name` replaces the configuration's run name. Memory is estimated for
/// one of `ranks` ranks. Throws CheckLate after limits.time, Failure if the worker cannot be run or the check was
/// abandoned.
CheckedConfig check_config(const Profile& profile, const std::string& yaml, const std::string& name,
                           std::int64_t ranks = 1, CheckLimits limits = {});

}  // namespace babelring::launch

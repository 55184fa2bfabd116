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

/// One thing that is wrong with a configuration.
struct ConfigFault {
  std::string pointer;  // JSON pointer of the key: /training/stop_after; empty where no key is to blame
  std::string detail;
  std::int64_t line = 0, column = 0;  // from 1; 0 where there is no place
};

/// What a worker would make of a configuration.
struct CheckedConfig {
  std::vector<ConfigFault> faults;  // empty: the configuration is valid
  std::string yaml;                 // resolved
  std::string name;
  std::int64_t max_updates = 0;  // 0: bounded otherwise
  std::string data_folder;       // absolute
  std::string start_from;        // absolute; empty: none
  // What a rank will need, by the names of memory_members; empty if the worker could not tell.
  std::map<std::string, std::int64_t> memory;
  std::vector<std::string> not_estimated;  // what cannot be estimated, and why
};

/// Learned numbers, tokens of the micro-batch that is assumed, and bytes.
inline constexpr std::array<const char*, 9> memory_members = {"parameters",  "source_tokens", "target_tokens",
                                                              "weights",     "gradients",     "moments",
                                                              "activations", "scratch",       "total"};

/// Has the profile's worker read a configuration, in a process with bounds on time, memory and output, so that the
/// server needs to know nothing of training. `name` replaces the configuration's; memory is that of one of `ranks`.
/// Throws Failure if the worker cannot be asked, and soon after `abandoned`, unless it is empty, has become true.
CheckedConfig check_config(const Profile& profile, const std::string& yaml, const std::string& name,
                           std::int64_t ranks = 1, std::function<bool()> abandoned = {});

}  // namespace babelring::launch

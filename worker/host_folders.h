#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace babelring {

/// The state of a run's folder on one host. With a shared file system it is the same on all hosts.
struct HostFolder {
  std::string run;  // id from run.json, otherwise from the spool; empty: the folder has no run
  std::int64_t attempt = 0;
  std::string first_host;              // host of that attempt's rank 0, which stores the checkpoints; empty: unknown
  bool run_file = false;               // run.json exists
  bool checkpoints = false;            // the checkpoints folder exists: rank 0 of an attempt ran on this host
  std::int64_t newest_checkpoint = 0;  // update of the newest checkpoint; 0: none

  bool operator==(const HostFolder&) const = default;
};

/// Inspects a run's folder on this host. Throws Failure if run.json exists but cannot be read.
HostFolder inspect_run_folder(const std::filesystem::path& folder);

/// For sending it to other ranks. host_folder_from_json() throws if a member is missing.
json::value to_json(const HostFolder& folder);
HostFolder host_folder_from_json(const json::value& value);

/// Checks that a run can continue in its folder on all hosts. The Error names the hosts: a host has another run, lacks
/// run.json, or has checkpoints that the host of rank 0 lacks.
/// `folders` and `hosts` are those of all ranks, in rank order. `wanted`: the expected run id, or empty.
/// `from_checkpoint`: the user chose the checkpoint, so the location of the newest one does not matter.
Status check_host_folders(const std::filesystem::path& folder, const std::vector<HostFolder>& folders,
                          const std::vector<std::string>& hosts, const std::string& wanted, bool from_checkpoint);

}  // namespace babelring

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace babelring {

/// What a run's folder holds on one host. With a shared file system all hosts see the same.
struct HostFolder {
  std::string run;  // id in run.json or, without it, in the spool; empty: no run has been here
  std::int64_t attempt = 0;
  std::string first_host;              // where rank 0 of that attempt was, which keeps the checkpoints; empty: unknown
  bool run_file = false;               // run.json is there
  bool checkpoints = false;            // the folder of checkpoints is there: rank 0 of some attempt was here
  std::int64_t newest_checkpoint = 0;  // its update; 0: there is none

  bool operator==(const HostFolder&) const = default;
};

/// Throws Failure if run.json is there and cannot be read.
HostFolder look_into(const std::filesystem::path& folder);

/// For sending it to other ranks. from_text throws Failure.
std::string to_text(const HostFolder& folder);
HostFolder host_folder_from_text(const std::string& text);

/// Why a run cannot go on in its folder, one line that names hosts; empty if it can: one of them has another run, lacks
/// run.json, or has the checkpoints that rank 0's host lacks. `folders` and `hosts` are of all ranks, in rank order.
/// `wanted`: the run's id, if it was given. `from_checkpoint`: the checkpoint to go on from is given too.
std::string why_not_in(const std::filesystem::path& folder, const std::vector<HostFolder>& folders,
                       const std::vector<std::string>& hosts, const std::string& wanted, bool from_checkpoint);

}  // namespace babelring

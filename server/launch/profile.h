#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/options.h"

namespace babelring::launch {

/// A way to start runs, which the server's operator wrote down: a client picks it by name and adds bounded numbers.
struct Profile {
  std::string name;
  std::string launcher = "mpirun";       // or slurm
  std::vector<std::string> command;      // what stands before the worker; {ranks} and {hosts} are filled in
  std::vector<std::string> submit;       // slurm: options of sbatch
  std::vector<std::string> environment;  // NAME=value
  std::vector<std::string> hosts;        // mpirun: HOST or HOST:SLOTS; empty: this one
  std::string worker;                    // program; empty: beside the server
  std::string server;                    // address that workers report to; empty: the one listened on
  std::string folder;                    // runs are kept below it; empty: DATA/runs
  std::string working_folder;            // relative names in a configuration count from here; empty: the server's
  std::vector<std::string> data_roots;   // where data.folder and start_from must lie; empty: anywhere
  bool data_is_here = true;              // whether the server can look into data.folder before it starts a run
  std::int64_t most_ranks = 64;
  std::int64_t most_running = 1;
  double launch_timeout_s = 120;    // until each rank has reported
  double heartbeat_timeout_s = 15;  // silence of a rank that ends an attempt
  double stall_timeout_s = 1800;    // without an update although all ranks report; 0: never
  double cool_down_s = 10;          // of a host that failed, doubling up to ten times this

  bool operator==(const Profile&) const = default;
  void bind(OptionBinder& binder);
  /// Throws UsageFailure on values that do not fit each other.
  void check() const;
};

/// By name. There is always one called mpirun-local, which the file may change.
using Profiles = std::map<std::string, Profile>;

/// `yaml` is a map from names to profiles. Throws UsageFailure with file, line and column.
Profiles read_profiles(const std::string& yaml, const std::string& file_name);
/// Those that are there without a file.
Profiles builtin_profiles();

/// A host and how many ranks it takes.
struct Host {
  std::string name;
  std::int64_t slots = 1;
};
/// "hostA:4". Throws UsageFailure.
Host parse_host(const std::string& text);

}  // namespace babelring::launch

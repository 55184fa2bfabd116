#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/options/options.h"

namespace babelring::launch {

/// A launch profile, defined by the server's operator. Clients choose a profile by name and add only bounded numbers.
struct Profile {
  std::string name;
  std::string launcher = "mpirun";             // or slurm
  std::vector<std::string> command;            // launcher command before the worker; {ranks} and {hosts} are replaced
  std::vector<std::string> submit;             // slurm: options of sbatch
  std::vector<std::string> evaluation;         // command that evaluates a run's checkpoints; {run} is replaced
  std::vector<std::string> evaluation_submit;  // slurm: options of sbatch for it
  std::vector<std::string> environment;        // NAME=value
  std::vector<std::string> hosts;              // mpirun: HOST or HOST:SLOTS; empty: this host
  std::string worker;                          // worker program; empty: the one in the server program's folder
  std::string server;                          // server address for workers; empty: the listening address
  std::string folder;                          // parent of the run folders; empty: DATA/runs
  std::string working_folder;                  // base of relative paths in a configuration; empty: the server's
  std::vector<std::string> data_roots;         // data.folder and start_from must lie below one; empty: anywhere
  bool data_is_here = true;                    // the server can access data.folder and checks it before a start
  std::int64_t max_ranks = 64;
  std::int64_t minimum_ranks = 0;  // mpirun: a run that lost a host goes on with this number of ranks or more; 0: all
  std::int64_t max_running = 1;
  double launch_timeout_s = 120;    // until each rank has reported
  double heartbeat_timeout_s = 15;  // silence of a rank that ends an attempt
  double stall_timeout_s = 1800;    // without an update although all ranks report; 0: no timeout
  double cool_down_s = 10;          // waiting time of a failed host; doubles up to ten times this

  bool operator==(const Profile&) const = default;
  void bind(OptionBinder& binder);
  /// Throws UsageFailure if values contradict each other.
  void check() const;
};

/// Profiles by name. Always contains mpirun-local, which a file may redefine.
using Profiles = std::map<std::string, Profile>;

/// Parses a YAML map from names to profiles. Throws UsageFailure with file, line and column.
Profiles read_profiles(const std::string& yaml, const std::string& file_name);
/// The profiles available without a file.
Profiles builtin_profiles();

/// True if a run with this configuration needs a power of two of ranks (training.reproducible ranks).
bool needs_power_of_two(const std::string& config);

/// A host with its number of rank slots.
struct Host {
  std::string name;
  std::int64_t slots = 1;
};
/// Parses HOST or HOST:SLOTS, for example "hostA:4". Throws UsageFailure.
Host parse_host(const std::string& text);

}  // namespace babelring::launch

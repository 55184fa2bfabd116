#include "server/launch/profile.h"

#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>

namespace babelring::launch {
namespace {

constexpr std::size_t most_profile_bytes = std::size_t{1} << 20;

bool is_name(const std::string& text) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  return !text.empty() && text.size() <= 64 && text.find_first_not_of(allowed) == std::string::npos;
}

/// Which profiles a file describes; their contents are read by OptionBinder, which knows the place of each fault.
std::vector<std::string> names_in(const std::string& yaml, const std::string& file) {
  std::vector<std::string> names;
  try {
    const YAML::Node root = YAML::Load(yaml);
    if (root.IsNull()) return names;
    if (!root.IsMap()) throw UsageFailure(fmt::format("{}:1:1: expected profiles by name", file));
    for (const auto& entry : root) {
      const auto name = entry.first.as<std::string>();
      const YAML::Mark mark = entry.first.Mark();
      if (!is_name(name) || name == "external") {
        throw UsageFailure(fmt::format("{}:{}:{}: a profile's name has letters, digits, - and _, and is not external",
                                       file, mark.line + 1, mark.column + 1));
      }
      names.push_back(name);
    }
  } catch (const YAML::Exception& error) {
    throw UsageFailure(fmt::format("{}:{}:{}: {}", file, error.mark.line + 1, error.mark.column + 1, error.msg));
  }
  return names;
}

}  // namespace

void Profile::bind(OptionBinder& b) {
  b.choice("launcher", launcher, {"mpirun", "slurm"}, "how processes are started");
  b.list("command", command, "program and arguments before the worker's; {ranks} and {hosts} are filled in");
  b.list("submit", submit, "slurm: further options of sbatch, such as --partition=gpu");
  b.list("environment", environment, "NAME=value for launcher and workers");
  b.list("hosts", hosts, "mpirun: HOST or HOST:SLOTS; none: this host");
  b.text("worker", worker, "the worker's program; empty: the one beside the server");
  b.text("server", server, "address that workers report to; empty: the one listened on");
  b.text("folder", folder, "runs are kept below it; empty: runs below the data folder");
  b.text("working_folder", working_folder, "relative names in a configuration count from here; empty: the server's");
  b.list("data_roots", data_roots,
         "data.folder must lie below one of these, training.start_from too or below the runs; none: anywhere");
  b.flag("data_is_here", data_is_here, "the server can look into data.folder before it starts a run");
  b.integer("most_ranks", most_ranks, 1, 100000, "of one run");
  b.integer("most_running", most_running, 1, 10000, "runs at a time; others wait");
  b.number("launch_timeout_s", launch_timeout_s, 1, 86400, "until each rank has reported");
  b.number("heartbeat_timeout_s", heartbeat_timeout_s, 2, 86400, "silence of a rank that ends an attempt");
  b.number("stall_timeout_s", stall_timeout_s, 0, 1e7, "without an update although ranks report; 0: never");
  b.number("cool_down_s", cool_down_s, 0, 3600, "of a host that failed; doubles up to ten times this");
}

void Profile::check() const {
  for (const std::string& entry : environment) {
    if (entry.find('=') == std::string::npos || entry.front() == '=') {
      throw UsageFailure(fmt::format("{}.environment: expected NAME=value, found '{}'", name, entry));
    }
  }
  std::int64_t slots = 0;
  for (const std::string& host : hosts) slots += parse_host(host).slots;
  if (!hosts.empty() && slots < most_ranks) {
    throw UsageFailure(fmt::format("{}.most_ranks: {}, but its hosts have {} slots", name, most_ranks, slots));
  }
  if (launcher == "slurm" && !hosts.empty()) {
    throw UsageFailure(fmt::format("{}.hosts: Slurm chooses hosts; use submit: [\"--nodelist=…\"]", name));
  }
}

Profiles builtin_profiles() {
  Profile local;
  local.name = "mpirun-local";
  local.most_ranks = 64;
  return {{local.name, local}};
}

Profiles read_profiles(const std::string& yaml, const std::string& file_name) {
  if (yaml.size() > most_profile_bytes) throw UsageFailure(fmt::format("{}: larger than 1 MiB", file_name));
  Profiles profiles = builtin_profiles();
  OptionBinder binder;
  for (const std::string& name : names_in(yaml, file_name)) {
    Profile& profile = profiles[name];
    profile.name = name;
    binder.group(name.c_str(), profile);
  }
  if (binder.fields().empty()) return profiles;
  load_yaml(binder, yaml, file_name);
  for (const auto& [name, profile] : profiles) profile.check();
  return profiles;
}

Host parse_host(const std::string& text) {
  Host host{.name = text.substr(0, text.find(':')), .slots = 1};
  bool formed =
      !host.name.empty() && host.name.front() != '-' && host.name.find_first_of(" ,\t'\"") == std::string::npos;
  if (host.name.size() < text.size()) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + host.name.size() + 1, end, host.slots);
    formed = formed && error == std::errc() && stop == end && host.slots > 0 && host.slots <= 100000;
  }
  if (!formed) throw UsageFailure(fmt::format("host: expected HOST or HOST:SLOTS, found '{}'", text));
  return host;
}

}  // namespace babelring::launch

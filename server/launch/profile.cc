#include "server/launch/profile.h"

#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>

namespace babelring::launch {
namespace {

constexpr std::size_t max_profile_bytes = std::size_t{1} << 20;

bool is_name(const std::string& text) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  return !text.empty() && text.size() <= 64 && text.find_first_not_of(allowed) == std::string::npos;
}

/// The profile names in a file. OptionBinder reads the contents and reports the position of errors.
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
        throw UsageFailure(
            fmt::format("{}:{}:{}: a profile name has letters, digits, - and _, and must not be external", file,
                        mark.line + 1, mark.column + 1));
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
  b.choice("launcher", launcher, {"mpirun", "slurm"}, "launcher for the processes");
  b.list("command", command, "launcher command before the worker; {ranks} and {hosts} are replaced");
  b.list("submit", submit, "slurm: additional sbatch options, such as --partition=gpu");
  b.list("evaluation", evaluation,
         "command that evaluates the checkpoints of a run while it trains, started once beside each run; {run} is "
         "replaced");
  b.list("evaluation_submit", evaluation_submit, "slurm: sbatch options of the job that evaluates");
  b.list("environment", environment, "environment of launcher and workers, NAME=value");
  b.list("hosts", hosts, "mpirun: HOST or HOST:SLOTS; empty: this host");
  b.text("worker", worker, "worker program; empty: the one in the server program's folder");
  b.text("server", server, "server address for workers; empty: the listening address");
  b.text("folder", folder, "parent of the run folders; empty: DATA/runs");
  b.text("working_folder", working_folder, "base of relative paths in a configuration; empty: the server's");
  b.list(
      "data_roots", data_roots,
      "data.folder must lie below one of these, training.start_from below these or the run folders; empty: anywhere");
  b.flag("data_is_here", data_is_here, "the server can access data.folder and checks it before a start");
  b.integer("max_ranks", max_ranks, 1, 100000, "maximum number of ranks per run");
  b.integer(
      "minimum_ranks", minimum_ranks, 0, 100000,
      "mpirun: a run whose host failed goes on with the other hosts if they have this number of ranks, and gets all "
      "its ranks back when the host answers again, at a checkpoint; 0: it waits for the host");
  b.integer("max_running", max_running, 1, 10000, "maximum number of concurrent runs; others are queued");
  b.integer("most_ranks", max_ranks, 1, 100000, "older name of max_ranks");
  b.integer("most_running", max_running, 1, 10000, "older name of max_running");
  b.number("launch_timeout_s", launch_timeout_s, 1, 86400, "time limit until every rank has reported");
  b.number("heartbeat_timeout_s", heartbeat_timeout_s, 2, 86400, "silence of a rank after which the attempt is ended");
  b.number("stall_timeout_s", stall_timeout_s, 0, 1e7,
           "time without an update after which the attempt is ended; 0: no limit");
  b.number("cool_down_s", cool_down_s, 0, 3600, "waiting time of a failed host; doubles up to ten times this");
}

void Profile::check() const {
  for (const std::string& entry : environment) {
    if (entry.find('=') == std::string::npos || entry.front() == '=') {
      throw UsageFailure(fmt::format("{}.environment: expected NAME=value, found '{}'", name, entry));
    }
  }
  const auto names_run = [](const std::string& part) { return part.find("{run}") != std::string::npos; };
  if (!evaluation.empty() && std::ranges::none_of(evaluation, names_run)) {
    throw UsageFailure(fmt::format(
        "{}.evaluation: expected {{run}} in the command, such as [nmt, evaluate, --watch, \"{{run}}\", --report]",
        name));
  }
  if (!evaluation_submit.empty() && launcher != "slurm") {
    throw UsageFailure(fmt::format("{}.evaluation_submit: is for launcher slurm, found {}", name, launcher));
  }
  std::int64_t slots = 0;
  for (const std::string& host : hosts) slots += parse_host(host).slots;
  if (!hosts.empty() && slots < max_ranks) {
    throw UsageFailure(fmt::format("{}.max_ranks: {}, but its hosts have {} slots", name, max_ranks, slots));
  }
  if (minimum_ranks > max_ranks) {
    throw UsageFailure(fmt::format("{}.minimum_ranks: {}, but max_ranks is {}", name, minimum_ranks, max_ranks));
  }
  if (minimum_ranks > 0 && hosts.empty()) {
    throw UsageFailure(
        fmt::format("{}.minimum_ranks: {}, but the profile has no hosts; expected 0", name, minimum_ranks));
  }
  if (launcher == "slurm" && !hosts.empty()) {
    throw UsageFailure(fmt::format("{}.hosts: Slurm chooses hosts; use submit: [\"--nodelist=…\"]", name));
  }
}

Profiles builtin_profiles() {
  Profile local;
  local.name = "mpirun-local";
  local.max_ranks = 64;
  return {{local.name, local}};
}

Profiles read_profiles(const std::string& yaml, const std::string& file_name) {
  if (yaml.size() > max_profile_bytes) throw UsageFailure(fmt::format("{}: larger than 1 MiB", file_name));
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

bool needs_power_of_two(const std::string& config) {
  try {
    const YAML::Node training = YAML::Load(config)["training"];
    return training.IsMap() && training["reproducible"].as<std::string>("") == "ranks";
  } catch (const YAML::Exception&) {
    return false;  // the worker refuses it
  }
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

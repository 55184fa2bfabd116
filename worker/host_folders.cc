#include "worker/host_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "base/json.h"
#include "base/names.h"
#include "base/records/records.h"
#include "base/result.h"
#include "base/text.h"
#include "worker/run_folder.h"

namespace babelring {
namespace {

/// The max number N of entries named `prefix`N in `folder`; 0 if there is none.
std::int64_t greatest_number(const std::filesystem::path& folder, std::string_view prefix) {
  std::int64_t greatest = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto number = parse_number<std::int64_t>(std::string_view(name).substr(prefix.size()));
    greatest = std::max(greatest, number.value_or(0));
  }
  return greatest;
}

/// The run id of a record in the spool of `attempt`; "?" if none can be read.
std::string run_in_spool(const std::filesystem::path& attempt) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(attempt, error)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream stream(entry.path());
    std::string line;
    std::getline(stream, line);
    const Result<json::value> record = parse_json(line);
    const json::object* object = record.ok() ? record->if_object() : nullptr;
    const json::value* run = object != nullptr ? object->if_contains("run") : nullptr;
    if (run != nullptr && run->is_string() && valid_id(run->get_string(), 'r')) return std::string(run->get_string());
  }
  return "?";
}

/// Checks that no host has a run that differs from `wanted` or from another host's.
Status check_runs(const std::vector<HostFolder>& folders, const std::vector<std::string>& hosts,
                  const std::string& wanted) {
  std::size_t known = folders.size();
  for (std::size_t rank = 0; rank < folders.size(); ++rank) {
    if (!folders[rank].run_file) continue;
    if (!wanted.empty() && folders[rank].run != wanted) {
      return Error{fmt::format("{} has run {}, expected {}", hosts[rank], folders[rank].run, wanted)};
    }
    if (known == folders.size()) known = rank;
    if (folders[rank].run != folders[known].run) {
      return Error{fmt::format("{} has run {}, {} has run {}: give all hosts the folder of one run", hosts[known],
                               folders[known].run, hosts[rank], folders[rank].run)};
    }
  }
  const std::string run = !wanted.empty() ? wanted : known < folders.size() ? folders[known].run : "";
  for (std::size_t rank = 0; rank < folders.size(); ++rank) {
    const HostFolder& folder = folders[rank];
    // A worker of version 0.1 wrote run.json on the first host only.
    if (folder.run_file || folder.run.empty() || folder.run == run) continue;
    return Error{fmt::format(
        "{} has a spool of run {}, attempt {}, but no run.json: put rank 0 on the host that has it, or move the folder "
        "away to start a new run",
        hosts[rank], folder.run, folder.attempt)};
  }
  return {};
}

/// Checks that no host has files which rank 0's host lacks and needs to continue.
Status check_first_host(const std::vector<HostFolder>& folders, const std::vector<std::string>& hosts) {
  const HostFolder& first = folders[0];
  const auto newest = std::max_element(folders.begin(), folders.end(), [](const HostFolder& a, const HostFolder& b) {
    return a.newest_checkpoint < b.newest_checkpoint;
  });
  if (newest->newest_checkpoint > first.newest_checkpoint) {
    const std::string& host = hosts[static_cast<std::size_t>(newest - folders.begin())];
    return Error{fmt::format(
        "the newest checkpoint of run {}, update {}, is on {}, not on {}: put rank 0 there (first in -H), or copy "
        "run.json and checkpoints",
        newest->run, newest->newest_checkpoint, host, hosts[0])};
  }
  if (first.run_file && !first.checkpoints && !first.first_host.empty() && first.first_host != hosts[0]) {
    return Error{fmt::format(
        "run {} has its checkpoints on {}, where rank 0 was, not on {}: put rank 0 there (first in -H), or copy "
        "run.json and checkpoints",
        first.run, first.first_host, hosts[0])};
  }
  const auto other =
      std::find_if(folders.begin(), folders.end(), [](const HostFolder& folder) { return folder.run_file; });
  if (!first.run_file && other != folders.end()) {
    return Error{fmt::format("{} has run {}, but {} has no run.json: put rank 0 where run {} began{}",
                             hosts[static_cast<std::size_t>(other - folders.begin())], other->run, hosts[0], other->run,
                             other->first_host.empty() ? "" : ", on " + other->first_host)};
  }
  return {};
}

}  // namespace

HostFolder inspect_run_folder(const std::filesystem::path& folder) {
  HostFolder found;
  found.newest_checkpoint = greatest_number(folder / "checkpoints", "update-");
  std::error_code error;
  found.checkpoints = std::filesystem::is_directory(folder / "checkpoints", error);
  if (const auto stored = read_run_file(folder)) {
    found.run_file = true;
    found.run = stored->run;
    found.attempt = stored->attempt;
    found.first_host = stored->host;
  } else if (const std::int64_t attempt = greatest_number(folder / "spool", "attempt-"); attempt > 0) {
    found.attempt = attempt;
    found.run = run_in_spool(folder / "spool" / fmt::format("attempt-{}", attempt));
  }
  return found;
}

json::value to_json(const HostFolder& folder) {
  return {{"run", folder.run},
          {"attempt", folder.attempt},
          {"first_host", folder.first_host},
          {"run_file", folder.run_file},
          {"checkpoints", folder.checkpoints},
          {"newest_checkpoint", folder.newest_checkpoint}};
}

HostFolder host_folder_from_json(const json::value& value) {
  return {.run = std::string(value.at("run").as_string()),
          .attempt = value.at("attempt").as_int64(),
          .first_host = std::string(value.at("first_host").as_string()),
          .run_file = value.at("run_file").as_bool(),
          .checkpoints = value.at("checkpoints").as_bool(),
          .newest_checkpoint = value.at("newest_checkpoint").as_int64()};
}

Status check_host_folders(const std::filesystem::path& folder, const std::vector<HostFolder>& folders,
                          const std::vector<std::string>& hosts, const std::string& wanted, bool from_checkpoint) {
  Status status = check_runs(folders, hosts, wanted);
  if (status && !from_checkpoint) status = check_first_host(folders, hosts);
  if (!status) return Error{fmt::format("run folder {}: {}", folder.string(), status.error())};
  return {};
}

}  // namespace babelring

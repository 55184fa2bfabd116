#include "server/launch/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/log.h"
#include "base/open_mpi.h"
#include "server/launch/process.h"

namespace babelring::launch {
namespace {

constexpr std::streamoff tail_bytes = 64 << 10;
constexpr std::size_t max_quoted = 300;

}  // namespace

std::string last_error_line(std::string_view text) {
  constexpr std::string_view mark = " error: ";
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = text.substr(at + mark.size());
  return printable(rest.substr(0, std::min(rest.find('\n'), max_quoted)));
}

std::string tail_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - tail_bytes));
  std::string text(static_cast<std::size_t>(std::min(size, tail_bytes)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

namespace {

void replace_all(std::string& text, std::string_view what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

/// Adds entries NAME=value. Each replaces an earlier entry of its name, because getenv() returns the first.
void set_entries(std::vector<std::string>& environment, const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    const auto earlier = std::find_if(environment.begin(), environment.end(),
                                      [&](const std::string& other) { return other.starts_with(name); });
    if (earlier == environment.end()) {
      environment.push_back(entry);
    } else {
      *earlier = entry;
    }
  }
}

}  // namespace

std::filesystem::path launch_config_path(const std::filesystem::path& folder) {
  return folder / "submitted.yaml";
}

std::filesystem::path launch_log_path(const std::filesystem::path& folder, std::int64_t attempt) {
  return folder / fmt::format("launcher-{}.log", attempt);
}

std::filesystem::path evaluation_log_path(const std::filesystem::path& folder) {
  return folder / "evaluation.log";
}

std::vector<std::string> worker_command(const Profile& profile, const LaunchOrder& order) {
  std::vector<std::string> command = {profile.worker,
                                      "--config",
                                      launch_config_path(order.folder).string(),
                                      "--run-dir",
                                      order.folder.string(),
                                      "--server",
                                      order.server,
                                      "--run-id",
                                      order.run,
                                      "--attempt",
                                      std::to_string(order.attempt)};
  if (!order.resume_from.empty()) {
    command.emplace_back("--resume-from");
    command.push_back(order.resume_from);
  } else if (order.expect_checkpoint > 0) {
    command.emplace_back("--expect-checkpoint");
    command.push_back(std::to_string(order.expect_checkpoint));
  }
  return command;
}

std::vector<std::string> full_command(const Profile& profile, const LaunchOrder& order,
                                      const std::vector<std::string>& usual) {
  return full_command(profile, order, usual, worker_command(profile, order));
}

std::vector<std::string> full_command(const Profile& profile, const LaunchOrder& order,
                                      const std::vector<std::string>& usual, const std::vector<std::string>& program) {
  std::string hosts;
  for (const Host& host : order.hosts) hosts += fmt::format("{}{}:{}", hosts.empty() ? "" : ",", host.name, host.slots);
  std::vector<std::string> command = profile.command.empty() ? usual : profile.command;
  for (std::string& part : command) {
    replace_all(part, "{ranks}", std::to_string(order.world_size));
    replace_all(part, "{hosts}", hosts);
  }
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

std::vector<std::string> launch_environment(const Profile& profile, const LaunchOrder& order) {
  std::vector<std::string> environment = plain_environment();
  if (geteuid() == 0) {  // Open MPI requires both to run as root
    environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT=1");
    environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  set_entries(environment, open_mpi::for_both_launchers(profile.environment));
  set_entries(environment, order.environment);
  set_entries(environment, attempt_marks(order.run, order.attempt));
  return environment;
}

std::vector<std::string> evaluation_command(const Profile& profile, const LaunchOrder& order) {
  std::vector<std::string> command = profile.evaluation;
  for (std::string& part : command) replace_all(part, "{run}", order.run);
  return command;
}

std::vector<std::string> evaluation_environment(const Profile& profile, const LaunchOrder& order) {
  std::vector<std::string> environment = plain_environment();
  set_entries(environment, profile.environment);
  set_entries(environment, {"BABELRING_SERVER=" + order.server, evaluation_mark(order.run)});
  return environment;
}

std::string evaluation_mark(const std::string& run) {
  return "BABELRING_EVALUATES=" + run;
}

std::vector<std::string> attempt_marks(const std::string& run, std::int64_t attempt) {
  return {"BABELRING_RUN=" + run, fmt::format("BABELRING_ATTEMPT={}", attempt)};
}

}  // namespace babelring::launch

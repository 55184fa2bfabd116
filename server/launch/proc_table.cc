#include "server/launch/proc_table.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/failure.h"

namespace babelring::launch {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t max_proc_bytes = 1 << 20;

/// Reads /proc/PID/`name`. Empty if the process does not exist or is not accessible. Throws Failure if descriptors or
/// memory run out, so that a live process is not mistaken for a dead one.
std::string read_proc(pid_t pid, const char* name) {
  const fs::path path = fs::path("/proc") / std::to_string(pid) / name;
  std::ifstream file(path, std::ios::binary);
  if (!file && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
    fail("{}: {}", path.string(), std::strerror(errno));
  std::string text;
  char block[4096];
  while (text.size() < max_proc_bytes && (file.read(block, sizeof block) || file.gcount() > 0)) {
    text.append(block, static_cast<std::size_t>(file.gcount()));
  }
  return text;
}

bool has_entry(const std::string& environment, const std::string& entry) {
  for (std::size_t at = environment.find(entry); at != std::string::npos; at = environment.find(entry, at + 1)) {
    const std::size_t end = at + entry.size();
    if ((at == 0 || environment[at - 1] == '\0') && (end == environment.size() || environment[end] == '\0'))
      return true;
  }
  return false;
}

/// The environment, NAME=value entries each terminated by NUL. A new process has no visible arguments or environment
/// until its execve has finished; this function waits for that.
std::string environment_of(const ProcessFacts& process) {
  constexpr int max_attempts = 5000;
  std::string environment = read_proc(process.pid, "environ");
  for (int attempt = 1; environment.empty() && attempt < max_attempts; ++attempt) {
    const auto now = find_process(process.pid);
    if (!now || !now->alive() || now->start_ticks != process.start_ticks) break;
    const bool made = !read_proc(process.pid, "cmdline").empty();
    usleep(1000);
    environment = read_proc(process.pid, "environ");
    if (made) break;
  }
  return environment;
}

}  // namespace

std::optional<ProcessFacts> parse_process(const std::string& stat) {
  const std::size_t open = stat.find('('), close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessFacts facts;
  std::istringstream before(stat.substr(0, open)), after(stat.substr(close + 1));
  std::string skipped;
  if (!(before >> facts.pid)) return std::nullopt;
  if (!(after >> facts.state >> facts.parent >> facts.group >> facts.session)) return std::nullopt;
  for (int field = 7; field < 22; ++field)
    after >> skipped;  // numbering of proc(5), from 1; field 22 is the start time
  if (!(after >> facts.start_ticks)) return std::nullopt;
  return facts;
}

std::optional<ProcessFacts> find_process(pid_t pid) {
  return pid > 0 ? parse_process(read_proc(pid, "stat")) : std::nullopt;
}

std::vector<ProcessFacts> all_processes() {
  std::vector<ProcessFacts> processes;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (fault != std::errc() || end != name.data() + name.size()) continue;
    if (auto facts = find_process(pid)) processes.push_back(*facts);
  }
  return processes;
}

std::vector<ProcessFacts> session_members(pid_t session) {
  std::vector<ProcessFacts> processes = all_processes();
  std::erase_if(processes, [&](const ProcessFacts& one) { return one.session != session || !one.alive(); });
  return processes;
}

std::vector<ProcessFacts> leaders_with_environment(const std::vector<std::string>& entries) {
  std::vector<ProcessFacts> processes = all_processes();
  std::erase_if(processes, [&](const ProcessFacts& one) {
    if (one.session != one.pid || !one.alive()) return true;
    const std::string environment = environment_of(one);
    return !std::all_of(entries.begin(), entries.end(),
                        [&](const auto& entry) { return has_entry(environment, entry); });
  });
  return processes;
}

std::string process_world() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code ignored;
  const std::string space = fs::read_symlink("/proc/self/ns/pid", ignored).string();
  const auto first = find_process(1);  // hidden where /proc shows one's own processes only
  return fmt::format("{} {} {}", boot, space, first ? first->start_ticks : 0);
}

}  // namespace babelring::launch

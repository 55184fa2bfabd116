#include "server/launch/mpirun_launcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
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
#include "server/launch/process.h"

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

namespace {

constexpr int evaluation_nice = 10;  // ranks on this host wait for each other

/// The launcher process, if it still exists. A reused pid has a different start time.
std::optional<ProcessFacts> leader_of(const store::LauncherHandle& handle) {
  auto facts = find_process(static_cast<pid_t>(handle.pid));
  if (!facts || facts->start_ticks != handle.start_ticks) return std::nullopt;
  return facts;
}

store::LauncherHandle handle_of(const ProcessFacts& leader) {
  return {.pid = leader.pid, .start_ticks = leader.start_ticks, .job = ""};
}

/// The remaining processes of the launcher's session. Members start after their leader, so older processes belong to
/// another session with the same number.
std::vector<ProcessFacts> members_of(const store::LauncherHandle& handle) {
  std::vector<ProcessFacts> members = session_members(static_cast<pid_t>(handle.pid));
  std::erase_if(members, [&](const ProcessFacts& one) { return one.start_ticks < handle.start_ticks; });
  return members;
}

/// mpirun and its options, for profiles without a command.
std::vector<std::string> usual_command(const LaunchOrder& order) {
  std::vector<std::string> usual = {"mpirun", "-np", "{ranks}", "--bind-to", "none"};
  if (order.hosts.empty()) {
    usual.emplace_back("--oversubscribe");  // ranks share cores; the profile bounds their number
  } else {
    usual.insert(usual.end(), {"-H", "{hosts}"});
  }
  return usual;
}

constexpr auto answer_within = std::chrono::seconds(30);

}  // namespace

std::vector<std::string> MpirunLauncher::command(const Profile& profile, const LaunchOrder& order) const {
  return full_command(profile, order, usual_command(order));
}

/// Starts `true` on each host as the profile would start workers.
std::optional<bool> MpirunLauncher::hosts_answer(const Profile& profile, const std::vector<Host>& hosts) {
  LaunchOrder order{.run = "hosts-answer", .world_size = static_cast<std::int64_t>(hosts.size()), .folder = {}};
  std::string key = profile.name;
  for (const Host& host : hosts) {
    order.hosts.push_back({.name = host.name, .slots = 1});
    key += " " + host.name;
  }
  auto found = questions_.find(key);
  if (found != questions_.end() && SteadyClock::now() - found->second.asked > 2 * answer_within) {
    static_cast<void>(take_answer(found));  // nobody has waited for it, and it is old
    found = questions_.end();
  }
  if (found != questions_.end()) return take_answer(found);
  const pid_t pid = start_process({.arguments = full_command(profile, order, usual_command(order), {"true"}),
                                   .environment = launch_environment(profile, order),
                                   .folder = profile.working_folder,
                                   .output = {}});
  questions_[key] = {.pid = pid, .asked = SteadyClock::now()};
  return std::nullopt;
}

/// The answer to a question, which is then forgotten; nothing while there is time left for it.
std::optional<bool> MpirunLauncher::take_answer(Questions::iterator asked) {
  const Question question = asked->second;
  const std::optional<Ended> ended = poll_child(question.pid);
  if (!ended && SteadyClock::now() - question.asked < answer_within) return std::nullopt;
  if (!ended) {
    ::kill(-question.pid, SIGKILL);
    waitpid(question.pid, nullptr, 0);
  }
  questions_.erase(asked);
  return ended && ended->code == 0;
}

namespace {

/// Sets the session folder of this attempt's mpirun. In /tmp, the default, Open MPI 5 names it by host, process number
/// and user, and does not start if it exists, as after a kill of the container, whose process numbers repeat.
void set_session_folder(std::vector<std::string>& environment, const LaunchOrder& order) {
  const auto is_set = [](const std::string& entry) { return entry.find("_tmpdir_base=") != std::string::npos; };
  if (std::ranges::any_of(environment, is_set)) return;
  const auto folder_of = [&](std::int64_t attempt) {
    return order.folder / fmt::format("launcher-{}.session", attempt);
  };
  std::error_code ignored;  // what is left costs no more than its place
  for (std::int64_t attempt = 1; attempt < order.attempt; ++attempt) fs::remove_all(folder_of(attempt), ignored);
  environment.push_back("PRTE_MCA_prte_local_tmpdir_base=" + folder_of(order.attempt).string());
}

}  // namespace

store::LauncherHandle MpirunLauncher::start(const Profile& profile, const LaunchOrder& order) {
  // After a rank has died, Open MPI 4's mpirun sleeps twice for this long (default: one second) before it has killed
  // the others. They have nothing to save: a stop with a checkpoint does not use this path. A value set in the profile
  // comes first and takes precedence. Open MPI 5 waits at most 0.25 s and has no such option.
  std::vector<std::string> environment = launch_environment(profile, order);
  environment.emplace_back("OMPI_MCA_odls_base_sigkill_timeout=0");
  set_session_folder(environment, order);
  return start_leader({.arguments = command(profile, order),
                       .environment = std::move(environment),
                       .folder = profile.working_folder,
                       .output = launch_log_path(order.folder, order.attempt)});
}

store::LauncherHandle MpirunLauncher::start_leader(const ProcessOrder& order) {
  const pid_t pid = start_process(order);
  ended_.erase(pid);
  try {
    const auto facts = find_process(pid);
    if (!facts) fail("process {} is not in /proc", pid);
    return handle_of(*facts);
  } catch (...) {  // without a start time, a reused pid would be undetectable
    ::kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    throw;
  }
}

std::optional<store::LauncherHandle> MpirunLauncher::find(const std::string& run, std::int64_t attempt) {
  for (const ProcessFacts& leader : leaders_with_environment(attempt_marks(run, attempt))) {
    return handle_of(leader);
  }
  return std::nullopt;
}

ProcessStatus MpirunLauncher::poll(const store::LauncherHandle& handle) {
  if (handle.pid <= 0) return {.kind = ProcessStatus::Kind::unknown};
  const auto leader = leader_of(handle);
  if (leader && leader->alive()) return {.kind = ProcessStatus::Kind::alive};
  if (leader && !ended_.contains(handle.pid)) {  // reap a zombie unless an earlier server started it
    if (const auto ended = poll_child(static_cast<pid_t>(handle.pid)); ended && ended->code >= 0) {
      ended_[handle.pid] = ended->code;
    }
  }
  if (!members_of(handle).empty())
    return {.kind = ProcessStatus::Kind::alive, .detail = "mpirun has ended, but ranks are still running"};
  ProcessStatus status{.kind = ProcessStatus::Kind::ended};
  if (const auto code = ended_.find(handle.pid); code != ended_.end()) status.exit_code = code->second;
  return status;
}

store::LauncherHandle MpirunLauncher::start_evaluation(const Profile& profile, const LaunchOrder& order) {
  for (const ProcessFacts& leader : leaders_with_environment({evaluation_mark(order.run)})) return handle_of(leader);
  return start_leader({.arguments = evaluation_command(profile, order),
                       .environment = evaluation_environment(profile, order),
                       .folder = profile.working_folder,
                       .output = evaluation_log_path(order.folder),
                       .nice = evaluation_nice});
}

void MpirunLauncher::ask_to_stop(const store::LauncherHandle& handle) {
  if (const auto leader = leader_of(handle); leader && leader->alive()) ::kill(leader->pid, SIGUSR1);
}

void MpirunLauncher::kill(const store::LauncherHandle& handle, bool urgent) {
  // SIGTERM makes mpirun also end its daemons on other hosts. Without a live mpirun, or if `urgent`, kill
  // all local processes.
  const auto leader = leader_of(handle);
  const bool alone = !leader || !leader->alive();
  if (!alone && !urgent) {
    ::kill(leader->pid, SIGTERM);
    return;
  }
  for (const ProcessFacts& member : members_of(handle)) ::kill(member.pid, SIGKILL);
}

}  // namespace babelring::launch

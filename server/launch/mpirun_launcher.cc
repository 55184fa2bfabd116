#include "server/launch/mpirun_launcher.h"

#include <signal.h>
#include <sys/wait.h>

#include "server/launch/proc_table.h"
#include "server/launch/process.h"

namespace babelring::launch {
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

store::LauncherHandle MpirunLauncher::start(const Profile& profile, const LaunchOrder& order) {
  // After a rank has died, Open MPI 4's mpirun sleeps twice for this long (default: one second) before it has killed
  // the others. They have nothing to save: a stop with a checkpoint does not use this path. A value set in the profile
  // comes first and takes precedence. Open MPI 5 waits at most 0.25 s and has no such option.
  std::vector<std::string> environment = launch_environment(profile, order);
  environment.emplace_back("OMPI_MCA_odls_base_sigkill_timeout=0");
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

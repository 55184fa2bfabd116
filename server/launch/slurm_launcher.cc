#include "server/launch/slurm_launcher.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"

namespace babelring::launch {
namespace {

constexpr std::size_t max_jobs = 100'000;
constexpr std::size_t max_id_digits = 20;

bool is_job_id(std::string_view text) {
  return !text.empty() && text.size() <= max_id_digits &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\r')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::string_view take_field(std::string_view& line) {
  const std::size_t at = std::min(line.find('|'), line.size());
  const std::string_view field = trimmed(line.substr(0, at));
  line.remove_prefix(std::min(at + 1, line.size()));
  return field;
}

}  // namespace

std::vector<SlurmJob> parse_squeue(std::string_view text) {
  std::vector<SlurmJob> jobs;
  while (!text.empty() && jobs.size() < max_jobs) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view id = take_field(line), state = take_field(line), code = take_field(line);
    const std::string_view name = take_field(line), reason = take_field(line);
    if (!is_job_id(id) || state.empty()) continue;
    SlurmJob job{.id = std::string(id),
                 .state = printable(state.substr(0, 32)),
                 .reason = printable(reason.substr(0, 100)),
                 .name = printable(name.substr(0, 128))};
    std::from_chars(code.data(), code.data() + code.size(), job.exit_code);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

ProcessStatus sight_of(const SlurmJob& job) {
  const auto is = [&](auto... names) { return ((job.state == names) || ...); };
  if (is("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SUSPENDED")) {
    return {.kind = ProcessStatus::Kind::pending, .detail = job.reason};
  }
  if (is("RUNNING", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")) {
    return {.kind = ProcessStatus::Kind::alive};
  }
  if (is("PREEMPTED")) return {.kind = ProcessStatus::Kind::preempted, .detail = "preempted by Slurm"};
  ProcessStatus status{.kind = ProcessStatus::Kind::ended, .exit_code = job.exit_code};
  if (is("COMPLETED")) return status;
  if (is("FAILED")) {
    if (job.exit_code == 0) status.exit_code.reset();
    status.detail = fmt::format("Slurm job {} failed ({})", job.id, job.reason);
    return status;
  }
  status.exit_code.reset();  // CANCELLED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, BOOT_FAIL, DEADLINE, …
  status.cause = is("CANCELLED") ? ProcessStatus::Cause::cancelled : ProcessStatus::Cause::revoked;
  status.detail = fmt::format("Slurm job {}: {}", job.id, job.state);
  return status;
}

std::string parse_sbatch(std::string_view text) {
  text = trimmed(text.substr(0, text.find('\n')));
  text = text.substr(0, text.find(';'));
  return is_job_id(text) ? std::string(text) : "";
}

namespace {

constexpr auto between_polls = std::chrono::seconds(1);
constexpr auto between_kills = std::chrono::seconds(2);
constexpr int polls_until_gone = 3;  // a new job may not be listed immediately
constexpr const char* format = "JobID:|,State:|,exit_code:|,Name:128|,Reason:100";

ProgramAnswer ask_slurm(std::vector<std::string> arguments, std::vector<std::string> environment, std::string folder) {
  return run_program({.arguments = std::move(arguments),
                      .environment = std::move(environment),
                      .folder = std::move(folder),
                      .output = {}},
                     {.time = std::chrono::seconds(8), .output_bytes = std::size_t{8} << 20});
}

/// Environment for Slurm commands. SLURM_CONF locates the controller.
std::vector<std::string> slurm_environment() {
  std::vector<std::string> environment = plain_environment();
  if (const char* conf = std::getenv("SLURM_CONF")) environment.push_back(fmt::format("SLURM_CONF={}", conf));
  return environment;
}

/// Jobs matching `filter`, an option of squeue. Throws Failure if squeue fails.
std::vector<SlurmJob> list_jobs(std::string filter) {
  const ProgramAnswer answer =
      ask_slurm({"squeue", "--noheader", "--states=all", std::move(filter), std::string("--Format=") + format},
                slurm_environment(), "");
  if (answer.code != 0) fail("squeue: exit code {}: {}", answer.code, printable(answer.complaint).substr(0, 300));
  return parse_squeue(answer.output);
}

std::string job_name(const std::string& run, std::int64_t attempt) {
  return fmt::format("babelring-{}-{}", run, attempt);
}

std::string evaluation_name(const std::string& run) {
  return fmt::format("babelring-{}-evaluation", run);
}

/// A job script that executes a command line.
std::string script_of(const std::vector<std::string>& command) {
  std::string script = "#!/bin/sh\nexec";
  for (const std::string& part : command) script += ' ' + shell_quoted(part);
  return script + '\n';
}

/// Submits a job and returns its number. Throws Failure if Slurm refuses it.
std::string submit(std::vector<std::string> command, std::vector<std::string> environment, const std::string& folder) {
  if (const char* conf = std::getenv("SLURM_CONF")) environment.push_back(fmt::format("SLURM_CONF={}", conf));
  const ProgramAnswer answer = ask_slurm(std::move(command), std::move(environment), folder);
  const std::string job = parse_sbatch(answer.output);
  if (answer.code != 0 || job.empty()) {
    fail("sbatch: exit code {}: {}", answer.code, printable(answer.complaint).substr(0, 300));
  }
  return job;
}

std::filesystem::path script_path(const LaunchOrder& order) {
  return order.folder / fmt::format("job-{}.sh", order.attempt);
}

}  // namespace

SlurmLauncher::~SlurmLauncher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::vector<std::string> SlurmLauncher::command(const Profile& profile, const LaunchOrder& order) const {
  std::vector<std::string> command = {"sbatch",
                                      "--parsable",
                                      "--no-requeue",  // the supervisor starts the next attempt, with a new number
                                      "--export=ALL",
                                      "--job-name=" + job_name(order.run, order.attempt),
                                      fmt::format("--ntasks={}", order.world_size),
                                      "--output=" + launch_log_path(order.folder, order.attempt).string(),
                                      "--open-mode=append",
                                      "--chdir=" + profile.working_folder};
  command.insert(command.end(), profile.submit.begin(), profile.submit.end());
  command.push_back(script_path(order).string());
  return command;
}

store::LauncherHandle SlurmLauncher::start(const Profile& profile, const LaunchOrder& order) {
  const std::vector<std::string> usual = {"mpirun", "-np", "{ranks}", "--bind-to", "none"};
  write_file_atomically(script_path(order), script_of(full_command(profile, order, usual)));
  return {.job = submit(command(profile, order), launch_environment(profile, order), profile.working_folder)};
}

store::LauncherHandle SlurmLauncher::start_evaluation(const Profile& profile, const LaunchOrder& order) {
  const auto in_progress = [](const SlurmJob& job) {
    const ProcessStatus::Kind kind = sight_of(job).kind;
    return kind == ProcessStatus::Kind::pending || kind == ProcessStatus::Kind::alive;
  };
  for (const SlurmJob& job : list_jobs("--name=" + evaluation_name(order.run))) {
    if (in_progress(job)) return {.job = job.id};
  }
  const std::filesystem::path script = order.folder / "evaluation.sh";
  write_file_atomically(script, script_of(evaluation_command(profile, order)));
  std::vector<std::string> command = {"sbatch",
                                      "--parsable",
                                      "--export=ALL",
                                      "--job-name=" + evaluation_name(order.run),
                                      "--ntasks=1",
                                      "--output=" + evaluation_log_path(order.folder).string(),
                                      "--open-mode=append",
                                      "--chdir=" + profile.working_folder};
  command.insert(command.end(), profile.evaluation_submit.begin(), profile.evaluation_submit.end());
  command.push_back(script.string());
  return {.job = submit(std::move(command), evaluation_environment(profile, order), profile.working_folder)};
}

std::optional<store::LauncherHandle> SlurmLauncher::find(const std::string& run, std::int64_t attempt) {
  const auto jobs = list_jobs("--name=" + job_name(run, attempt));
  if (jobs.empty()) return std::nullopt;
  return store::LauncherHandle{.job = jobs.back().id};
}

ProcessStatus SlurmLauncher::poll(const store::LauncherHandle& handle) {
  const std::lock_guard lock(mutex_);
  wanted_.insert(handle.job);
  if (!thread_.joinable()) thread_ = std::thread([this] { poll_loop(); });
  wake_.notify_one();
  if (!last_poll_) return {.kind = ProcessStatus::Kind::unknown, .detail = last_poll_.error()};
  if (const auto seen = seen_.find(handle.job); seen != seen_.end()) return sight_of(seen->second);
  const auto missing = missing_.find(handle.job);
  if (missing == missing_.end() || missing->second < polls_until_gone) return {.kind = ProcessStatus::Kind::alive};
  return {.kind = ProcessStatus::Kind::ended, .detail = fmt::format("Slurm no longer knows job {}", handle.job)};
}

void SlurmLauncher::poll_loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (wanted_.empty()) {
      wake_.wait(lock, [&] { return stopping_ || !wanted_.empty(); });
      continue;
    }
    const std::set<std::string> wanted = std::exchange(wanted_, {});
    lock.unlock();
    Status polled;
    std::vector<SlurmJob> jobs;
    try {
      jobs = list_jobs(fmt::format("--user={}", getuid()));
    } catch (const std::exception& failure) {  // e.g. out of memory; the next poll may succeed
      polled = Error{failure.what()};
    }
    lock.lock();
    last_poll_ = polled;
    if (polled) {
      seen_.clear();
      for (SlurmJob& job : jobs) {
        if (wanted.contains(job.id)) seen_[job.id] = std::move(job);
      }
      std::map<std::string, int> missing;
      for (const std::string& job : wanted) {
        if (!seen_.contains(job)) missing[job] = missing_[job] + 1;
      }
      missing_ = std::move(missing);
    }
    wake_.wait_for(lock, between_polls, [&] { return stopping_; });
  }
}

void SlurmLauncher::ask_to_stop(const store::LauncherHandle& handle) {
  ask_slurm({"scancel", "--signal=USR1", "--full", handle.job}, slurm_environment(), "");
}

void SlurmLauncher::kill(const store::LauncherHandle& handle, bool urgent) {
  {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    auto& last = killed_[handle.job];
    if (now - last < between_kills) return;  // the caller repeats the call
    last = now;
  }
  std::vector<std::string> arguments = {"scancel", handle.job};
  if (urgent) arguments.insert(arguments.begin() + 1, {"--signal=KILL", "--full"});
  ask_slurm(std::move(arguments), slurm_environment(), "");
}

}  // namespace babelring::launch

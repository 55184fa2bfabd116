#include "server/launch/evaluation_jobs.h"

#include <fmt/format.h>

#include "base/log.h"
#include "server/launch/launcher.h"

namespace babelring::launch {
namespace {

constexpr std::int64_t usage_code = 2;
constexpr std::int64_t interrupted_code = 128 + 2, terminated_code = 128 + 15;  // SIGINT, SIGTERM
constexpr std::size_t max_line_bytes = 300;

/// The last line of a job's log; empty if there is none.
std::string last_line(const LaunchOrder& order) {
  std::string text = tail_of(evaluation_log_path(order.folder));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  const std::size_t begin = text.rfind('\n');
  return printable(text.substr(begin == std::string::npos ? 0 : begin + 1).substr(0, max_line_bytes));
}

std::string end_of(const ProcessStatus& status) {
  if (!status.exit_code) return status.detail.empty() ? "an unknown exit code" : status.detail;
  if (*status.exit_code > 128) return fmt::format("signal {}", *status.exit_code - 128);
  return fmt::format("exit code {}", *status.exit_code);
}

bool ended_on_purpose(const ProcessStatus& status) {
  return status.cause == ProcessStatus::Cause::cancelled || status.exit_code == interrupted_code ||
         status.exit_code == terminated_code;
}

}  // namespace

void EvaluationJobs::start(const Profile& profile, const LaunchOrder& order, Launcher& launcher, Time now) {
  if (profile.evaluation.empty()) return;
  Job& job = jobs_.try_emplace(order.run, Job{profile, {}, &launcher}).first->second;
  job.order = {.run = order.run, .name = order.name, .folder = order.folder, .server = order.server};
  if (!job.handle) begin(job, now);
}

void EvaluationJobs::begin(Job& job, Time now) {
  job.due.reset();
  try {
    job.handle = job.launcher->start_evaluation(job.profile, job.order);
  } catch (const std::exception& failure) {
    fail_job(job, fmt::format("could not be started: {}", printable(failure.what())), false, now);
  }
}

void EvaluationJobs::fail_job(Job& job, const std::string& why, bool hopeless, Time now) {
  const std::string& run = job.order.run;
  job.handle.reset();
  pauses_.strike(run, first_pause, now);
  if (hopeless || pauses_.strikes(run, now) >= max_failures) {
    report_(run, fmt::format("its evaluation {}; the next attempt starts it again", why));
    return;
  }
  job.due = pauses_.ready_at(run, now);
  report_(run, fmt::format("its evaluation {}; it is started again in {} s", why,
                           std::chrono::duration_cast<std::chrono::seconds>(*job.due - now).count()));
}

void EvaluationJobs::look_at(Job& job, bool active, Time now) {
  const ProcessStatus status = job.launcher->poll(*job.handle);
  if (status.kind != ProcessStatus::Kind::ended) return;
  const bool unseen = !status.exit_code && status.detail.empty();  // it ended while no server was running
  if (status.exit_code == 0 || (unseen && !active)) {
    job.handle.reset();
    return;
  }
  const bool hopeless = status.exit_code == usage_code || ended_on_purpose(status);
  const std::string line = last_line(job.order);
  fail_job(job, fmt::format("ended with {}{}", end_of(status), line.empty() ? "" : ": " + line), hopeless, now);
}

void EvaluationJobs::tick(const std::set<std::string>& active, Time now) {
  for (auto entry = jobs_.begin(); entry != jobs_.end();) {
    auto& [run, job] = *entry;
    if (job.handle) {
      look_at(job, active.contains(run), now);
    } else if (job.due && *job.due <= now) {
      begin(job, now);
    }
    const bool over = !job.handle && !job.due && !active.contains(run);
    entry = over ? jobs_.erase(entry) : std::next(entry);
  }
}

bool EvaluationJobs::has_work() const {
  for (const auto& [run, job] : jobs_) {
    if (job.handle || job.due) return true;
  }
  return false;
}

}  // namespace babelring::launch

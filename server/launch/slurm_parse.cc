#include <algorithm>
#include <array>
#include <charconv>

#include "base/log.h"
#include "server/launch/slurm_launcher.h"

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

}  // namespace babelring::launch

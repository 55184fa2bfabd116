#include "server/store/reporter.h"

#include <fmt/format.h>

namespace babelring::store {
namespace {

using Kind = Refusal::Kind;

std::int64_t count_begun(Database& database, const std::string& token, std::int64_t since_ms) {
  return database.prepare("SELECT count(*) FROM runs WHERE begun_by = ? AND created_ms > ?")
      .bind(token, since_ms)
      .value<std::int64_t>();
}

}  // namespace

std::optional<Refusal> refuse_reporter(const Reporter& reporter, const std::string& id, const ReportedRun& run) {
  using Reach = Reporter::Reach;
  if (reporter.reach == Reach::every_run || reporter.reach == Reach::one_run) return std::nullopt;
  if (run.managed) {
    return Refusal{Kind::not_its_run,
                   fmt::format("run {} was started by the server: only its own token may report for it", id)};
  }
  if (run.begun_by == reporter.token) return std::nullopt;
  if (reporter.reach == Reach::prefix) {
    if (!run.name.empty() && run.name.starts_with(reporter.prefix)) return std::nullopt;
    return Refusal{Kind::not_its_run,
                   fmt::format("this token is only for runs with names that begin with '{}', run {} is named '{}'",
                               reporter.prefix, id, run.name)};
  }
  if (run.begun_by.empty()) return std::nullopt;  // stored before the server recorded the token
  return Refusal{Kind::not_its_run,
                 fmt::format("run {} was started with another token; create a token bound to this run: "
                             "{{\"scope\": \"ingest\", \"run\": \"{}\"}}",
                             id, id)};
}

std::optional<Refusal> refuse_name(const Reporter& reporter, const std::string& name) {
  if (reporter.reach != Reporter::Reach::prefix || name.starts_with(reporter.prefix)) return std::nullopt;
  return Refusal{
      Kind::not_its_run,
      fmt::format("this token is only for runs with names that begin with '{}', found '{}'", reporter.prefix, name)};
}

std::optional<Refusal> refuse_place(const std::string& id, const ReportedRun& run, std::int64_t attempt,
                                    std::int64_t rank) {
  const std::int64_t ranks = run.ranks > 0 ? run.ranks : max_external_ranks;
  if (rank >= ranks) {
    return Refusal{Kind::rank_refused, fmt::format("run {} attempt {} has {}{} ranks, found rank {}", id, attempt,
                                                   run.ranks > 0 ? "" : "at most ", ranks, rank)};
  }
  if (run.managed && attempt > run.attempt) {
    return Refusal{
        Kind::attempt_refused,
        fmt::format("run {} was started by the server and its newest attempt is {}, found {}; continue it with "
                    "`nmt run resume`",
                    id, run.attempt, attempt)};
  }
  if (attempt - run.attempt > max_attempt_jump) {
    return Refusal{Kind::attempt_refused,
                   fmt::format("the newest attempt of run {} is {}, expected at most {}, found {}", id, run.attempt,
                               run.attempt + max_attempt_jump, attempt)};
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_new_run(Database& database, const Reporter& reporter, std::int64_t now_ms) {
  using Reach = Reporter::Reach;
  if (reporter.reach == Reach::every_run || reporter.reach == Reach::one_run) return std::nullopt;
  if (count_begun(database, reporter.token, now_ms - 60'000) >= max_new_runs_a_minute) {
    return Refusal{Kind::too_many_runs,
                   fmt::format("this token has started {} runs within a minute; retry later", max_new_runs_a_minute)};
  }
  if (count_begun(database, reporter.token, 0) >= max_begun_runs) {
    return Refusal{Kind::too_many_runs,
                   fmt::format("this token has started {} runs: delete some, or use another token", max_begun_runs)};
  }
  return std::nullopt;
}

}  // namespace babelring::store

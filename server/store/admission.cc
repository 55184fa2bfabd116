#include "server/store/admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/store/attempts.h"
#include "server/store/control.h"

namespace babelring::store {

template <const_or_not<CommandRow> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("r.run", run.number);
  column("r.attempt", run.attempt);
  column("state", run.state);
  column("coalesce(a.fenced, 0) OR ?2 < r.attempt", run.fenced);
  column("stop_wish", run.stop_mode);
  column("checkpoint_wish", run.checkpoints_requested);
  column("coalesce(t.number, 0)", run.trace.number);
  column("coalesce(t.updates, 0)", run.trace.updates);
  column("coalesce(t.ops, 0)", run.trace.ops);
  column("name", run.name);
  column("begun_by", run.begun_by);
  column("l.run IS NOT NULL AND coalesce(c.launcher, '') <> 'external'", run.managed);
  column("a.world_size", run.ranks);
  column("created_ms", run.created_ms);
}

namespace {

using Kind = Refusal::Kind;

std::int64_t count_begun(Database& database, const std::string& token, std::int64_t since_ms) {
  return database.prepare("SELECT count(*) FROM runs WHERE begun_by = ? AND created_ms > ?")
      .bind(token, since_ms)
      .value<std::int64_t>();
}

constexpr std::int64_t nameless_ms = 60'000;

/// The run name in rank 0's "started" record; null if the batch has no such record.
const std::string* started_name(const Batch& batch) {
  for (const Record& record : batch.records) {
    const auto* life = std::get_if<LifecycleRecord>(&record.body);
    if (batch.rank == 0 && life != nullptr && life->event == "started") return &life->name;
  }
  return nullptr;
}

/// True if the reporter takes over an external run that has had no name for a minute. This happens if a token with
/// another name prefix created the run and was refused when rank 0 reported the name.
bool claims(const Batch& batch, const ReportedRun& run, std::int64_t now_ms) {
  const bool nameless = run.name.empty() && !run.managed && now_ms - run.created_ms > nameless_ms;
  const std::string* name = started_name(batch);
  return nameless && batch.reporter.reach == ReportSender::Reach::prefix && name != nullptr &&
         !refuse_name(batch.reporter, *name);
}

/// The highest stored sequence number of a rank; 0: none.
std::int64_t newest_sequence(Database& database, std::int64_t run, std::int64_t attempt, std::int64_t rank) {
  return database.prepare("SELECT coalesce(max(last), 0) FROM arrivals WHERE run = ? AND attempt = ? AND rank = ?")
      .bind(run, attempt, rank)
      .value<std::int64_t>();
}

}  // namespace

std::optional<Refusal> refuse_reporter(const ReportSender& reporter, const std::string& id, const ReportedRun& run) {
  using Reach = ReportSender::Reach;
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

std::optional<Refusal> refuse_name(const ReportSender& reporter, const std::string& name) {
  if (reporter.reach != ReportSender::Reach::prefix || name.starts_with(reporter.prefix)) return std::nullopt;
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

std::optional<Refusal> refuse_new_run(Database& database, const ReportSender& reporter, std::int64_t now_ms) {
  using Reach = ReportSender::Reach;
  if (reporter.reach == Reach::every_run || reporter.reach == Reach::one_run) return std::nullopt;
  if (count_begun(database, reporter.token, now_ms - 60'000) >= max_new_runs_per_minute) {
    return Refusal{Kind::too_many_runs,
                   fmt::format("this token has started {} runs within a minute; retry later", max_new_runs_per_minute)};
  }
  if (count_begun(database, reporter.token, 0) >= max_begun_runs) {
    return Refusal{Kind::too_many_runs,
                   fmt::format("this token has started {} runs: delete some, or use another token", max_begun_runs)};
  }
  return std::nullopt;
}

std::optional<CommandRow> find_commands(Database& database, const std::string& run, std::int64_t attempt) {
  static const std::string sql = select<CommandRow>(
      "FROM runs r LEFT JOIN attempts a ON a.run = r.run AND a.attempt = ?2 "
      "LEFT JOIN trace_requests t ON t.run = r.run AND t.attempt = r.attempt "
      "LEFT JOIN attempts c ON c.run = r.run AND c.attempt = r.attempt "
      "LEFT JOIN launches l ON l.run = r.run WHERE id = ?1");
  return database.prepare(sql).bind(run, attempt).first<CommandRow>();
}

std::optional<Refusal> refuse_batch(Database& database, const Batch& batch, const std::optional<CommandRow>& known,
                                    std::int64_t now_ms) {
  if (known) {
    auto refusal = refuse_reporter(batch.reporter, batch.run, *known);
    if (refusal && !claims(batch, *known, now_ms)) return refusal;
  } else if (auto refusal = refuse_new_run(database, batch.reporter, now_ms)) {
    return refusal;
  }
  const ReportedRun run = known ? static_cast<const ReportedRun&>(*known) : ReportedRun{};
  if (auto refusal = refuse_place(batch.run, run, batch.attempt, batch.rank)) return refusal;
  if (const std::string* name = started_name(batch)) {
    if (auto refusal = refuse_name(batch.reporter, *name)) return refusal;
  }
  std::int64_t newest = 0;
  for (const Record& record : batch.records) newest = std::max(newest, record.header.sequence);
  if (batch.confirmed == 0 && newest <= max_sequence_jump) return std::nullopt;
  const std::int64_t stored = newest_sequence(database, run.number, batch.attempt, batch.rank);
  // Records confirmed one after the other are lost from the end: with the end of the write-ahead log, or behind the
  // backup that was restored. Refusing what follows keeps the order in which they are stored.
  if (stored < batch.confirmed) {
    return Refusal{
        Refusal::Kind::records_missing,
        fmt::format("the newest stored record of rank {} in attempt {} of run {} is {}, but {} was confirmed: "
                    "send again what follows {}",
                    batch.rank, batch.attempt, batch.run, stored, batch.confirmed, stored),
        stored};
  }
  if (newest - stored <= max_sequence_jump) return std::nullopt;
  return Refusal{Refusal::Kind::sequence_refused,
                 fmt::format("the newest sequence number of rank {} is {}, expected at most {}, found {}", batch.rank,
                             stored, stored + max_sequence_jump, newest)};
}

Admitted admit(Database& database, const Batch& batch, const std::optional<CommandRow>& known, std::int64_t now_ms) {
  // A spool may deliver records hours later, so started_ms comes from the record; created_ms is the time of arrival.
  // The journal of transitions has no time in the future: the record's clock may be ahead.
  const std::int64_t told_ms = batch.records.empty() ? now_ms : batch.records.front().header.time_ms;
  const std::int64_t at_ms = std::min(told_ms, now_ms);
  if (!known) {
    Statement insert = database.prepare(
        "INSERT INTO runs(id, state, attempt, created_ms, updated_ms, started_ms, begun_by) "
        "VALUES (?, 'running', 0, ?, ?, ?, ?) RETURNING run");
    const auto made = insert.bind(batch.run, now_ms, now_ms, told_ms, batch.reporter.token).value<std::int64_t>();
    record_newer_attempt(database, batch.run, batch.attempt, batch.host, at_ms);
    return {.run = made, .current = true, .run_changed = true};
  }
  const bool unclaimed = known->begun_by.empty() && batch.reporter.reach == ReportSender::Reach::begun;
  if (unclaimed || claims(batch, *known, now_ms)) {
    database.prepare("UPDATE runs SET begun_by = ? WHERE run = ?").bind(batch.reporter.token, known->number).run();
  }
  bool changed = false;
  if (batch.attempt > known->attempt) {
    record_newer_attempt(database, batch.run, batch.attempt, batch.host, at_ms);
    changed = true;
  } else if (batch.attempt == known->attempt &&
             (known->state == RunState::launching || known->state == RunState::lost)) {
    const std::string cause = fmt::format("rank {} reports", batch.rank);
    change_state(database, {batch.run, RunEvent::reported, cause, batch.host}, at_ms);
    changed = true;
  }
  return {.run = known->number, .current = batch.attempt >= known->attempt, .run_changed = changed};
}

}  // namespace babelring::store

#include <algorithm>

#include "server/store/control.h"
#include "server/store/ingest.h"

/// Ingest: admission of batches.
namespace babelring::store {
namespace {

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
  return nameless && batch.reporter.reach == Reporter::Reach::prefix && name != nullptr &&
         !refuse_name(batch.reporter, *name);
}

}  // namespace

std::optional<Refusal> Ingest::refuse(const Batch& batch, const std::optional<CommandRow>& known, std::int64_t now_ms) {
  if (known) {
    auto refusal = refuse_reporter(batch.reporter, batch.run, *known);
    if (refusal && !claims(batch, *known, now_ms)) return refusal;
  } else if (auto refusal = refuse_new_run(database_, batch.reporter, now_ms)) {
    return refusal;
  }
  const ReportedRun run = known ? static_cast<const ReportedRun&>(*known) : ReportedRun{};
  if (auto refusal = refuse_place(batch.run, run, batch.attempt, batch.rank)) return refusal;
  if (const std::string* name = started_name(batch)) {
    if (auto refusal = refuse_name(batch.reporter, *name)) return refusal;
  }
  std::int64_t newest = 0;
  for (const Record& record : batch.records) newest = std::max(newest, record.header.sequence);
  if (newest <= max_sequence_jump) return std::nullopt;
  const std::int64_t stored = newest_sequence({run.number, batch.attempt, batch.rank});
  if (newest - stored <= max_sequence_jump) return std::nullopt;
  return Refusal{Refusal::Kind::sequence_refused,
                 fmt::format("the newest sequence number of rank {} is {}, expected at most {}, found {}", batch.rank,
                             stored, stored + max_sequence_jump, newest)};
}

std::int64_t Ingest::newest_sequence(const RankKey& key) {
  const auto [run, attempt, rank] = key;
  return database_.prepare("SELECT coalesce(max(last), 0) FROM arrivals WHERE run = ? AND attempt = ? AND rank = ?")
      .bind(run, attempt, rank)
      .value<std::int64_t>();
}

Ingest::Admitted Ingest::admit(const Batch& batch, const std::optional<CommandRow>& known, std::int64_t now_ms,
                               IngestResult& result) {
  if (!known) {
    const std::int64_t started = batch.records.empty() ? now_ms : batch.records.front().header.time_ms;
    Statement insert = database_.prepare(
        "INSERT INTO runs(id, state, attempt, created_ms, updated_ms, started_ms, begun_by) "
        "VALUES (?, 'running', 0, ?, ?, ?, ?) RETURNING run");
    const auto made = insert.bind(batch.run, now_ms, now_ms, started, batch.reporter.token).value<std::int64_t>();
    record_newer_attempt(database_, batch.run, batch.attempt, batch.host, now_ms);
    result.run_changed = true;
    return {.run = made, .current = true};
  }
  const bool unclaimed = known->begun_by.empty() && batch.reporter.reach == Reporter::Reach::begun;
  if (unclaimed || claims(batch, *known, now_ms)) {
    database_.prepare("UPDATE runs SET begun_by = ? WHERE run = ?").bind(batch.reporter.token, known->number).run();
  }
  if (batch.attempt > known->attempt) {
    record_newer_attempt(database_, batch.run, batch.attempt, batch.host, now_ms);
    result.run_changed = true;
  } else if (batch.attempt == known->attempt &&
             (known->state == RunState::launching || known->state == RunState::lost)) {
    const std::string cause = fmt::format("rank {} reports", batch.rank);
    change_state(database_, {batch.run, RunEvent::reported, cause, batch.host}, now_ms);
    result.run_changed = true;
  }
  return {.run = known->number, .current = batch.attempt >= known->attempt};
}

}  // namespace babelring::store

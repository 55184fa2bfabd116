#include "server/store/ingest.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/names.h"
#include "base/records/library_versions.h"
#include "server/store/checkpoints.h"
#include "server/store/control.h"
#include "server/store/evals.h"
#include "server/store/metrics.h"
#include "server/store/series/downsampling.h"

namespace babelring::store {
namespace {

constexpr std::size_t max_ranges = 1000;  // max ranges of sequence numbers per rank
constexpr std::size_t max_ranks = 4096;   // max cached ranks

constexpr std::size_t max_layouts = 500, max_keys = 2000;  // per run

/// Throws Rejected if a run has too many layouts or keys. They are cached for the lifetime of the server.
void check_keys(Database& database, KeyLayouts& layouts, std::int64_t run) {
  const auto numbers = database.prepare("SELECT layout FROM run_layouts WHERE run = ?").bind(run).all<std::int64_t>();
  std::set<std::string> keys;
  for (const std::int64_t number : numbers) {
    const auto& some = layouts.keys(number);
    keys.insert(some.begin(), some.end());
  }
  if (numbers.size() > max_layouts) {
    throw Rejected(fmt::format("a run's steps have at most {} different sets of keys", max_layouts));
  }
  if (keys.size() > max_keys) throw Rejected(fmt::format("a run has at most {} metric keys", max_keys));
}

/// As the column `libraries` holds them.
std::string libraries_text(const LifecycleRecord& lifecycle) {
  const LibraryVersions versions = library_versions_from_json(lifecycle.libraries);
  return versions == LibraryVersions() ? "" : to_text(to_json(versions));
}

}  // namespace

void Ingest::forget() {
  ranks_.clear();
  known_layouts_.clear();
  layouts_.forget();
  logs_.forget();
}

Ingest::RankState& Ingest::rank_state(const RankKey& key, const Batch& batch, std::int64_t now_ms) {
  if (const auto known = ranks_.find(key); known != ranks_.end()) return known->second;
  if (ranks_.size() >= max_ranks) ranks_.clear();
  RankState& state = ranks_[key];
  const auto [run, attempt, rank] = key;
  state.stored = read_arrivals(database_, run, attempt, rank);
  state.arrived = SequenceNumbers(state.stored);
  Statement find =
      database_.prepare("SELECT first_update, last_update FROM ranks WHERE run = ? AND attempt = ? AND rank = ?");
  if (!find.bind(run, attempt, rank).next(state.first_update, state.last_update)) {
    database_.prepare("INSERT INTO ranks(run, attempt, rank, host, updated_ms) VALUES (?, ?, ?, ?, ?)")
        .bind(run, attempt, rank, batch.host, now_ms)
        .run();
  }
  return state;
}

IngestResult Ingest::apply(const Batch& batch, std::int64_t now_ms) {
  IngestResult result;
  const auto known = find_commands(database_, batch.run, batch.attempt);
  if (auto refusal = refuse_batch(database_, batch, known, now_ms)) {
    result.status = IngestResult::Status::refused;
    result.refusal = refusal->kind;
    result.detail = std::move(refusal->detail);
    result.stored = refusal->stored;
    return result;
  }
  result.ranks = known ? known->ranks : 0;
  const auto [run, current, run_changed] = admit(database_, batch, known, now_ms);
  result.run_changed = run_changed;
  RankState& rank = rank_state({run, batch.attempt, batch.rank}, batch, now_ms);
  const Target target{batch, run, now_ms, current, rank, result};
  for (std::size_t index = 0; index < batch.records.size(); ++index) {
    const Record& record = batch.records[index];
    if (!rank.arrived.insert(record.header.sequence)) {
      ++result.duplicates;
      continue;
    }
    auto id = std::visit([&](const auto& body) { return store(target, record, body); }, record.body);
    result.fresh.push_back({index, std::move(id)});
  }
  if (rank.arrived.ranges().size() > max_ranges) {
    throw Rejected(
        fmt::format("rank {} of run {}: more than {} gaps in the sequence numbers", batch.rank, batch.run, max_ranges));
  }
  const RankAttempt steps{run, batch.rank, batch.attempt};
  std::set<std::int64_t> summarised;
  for (const std::int64_t bucket : rank.touched) {
    if (bucket >= bucket_of(rank.last_update)) continue;
    summarise_steps(database_, steps, bucket);
    summarised.insert(bucket);
  }
  update_summaries(database_, steps, std::move(summarised), rank.last_update);
  rank.touched.clear();
  save_rank(target);
  return result;
}

std::string Ingest::store(const Target& target, const Record& record, const StepRecord& step) {
  std::vector<std::string> keys;
  std::vector<double> values;
  for (auto& [key, value] : stored_metrics(step)) {
    keys.push_back(std::move(key));
    values.push_back(value);
  }
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  const std::int64_t layout = layouts_.intern(keys);
  if (known_layouts_.insert({target.run, layout}).second) {
    database_.prepare("INSERT OR IGNORE INTO run_layouts(run, layout) VALUES (?, ?)").bind(target.run, layout).run();
    check_keys(database_, layouts_, target.run);
  }
  database_
      .prepare(
          "INSERT OR REPLACE INTO steps(run, rank, attempt, step, time_ms, layout, digest, vals) "
          "VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''), ?)")
      .bind(target.run, record.header.rank, record.header.attempt, step.update, record.header.time_ms, layout,
            step.weights_digest, Blob{bytes})
      .run();
  RankState& rank = target.rank;
  // A bucket is summarised once a later bucket has started, and again if a late step falls into it.
  if (rank.last_update > 0) rank.touched.insert(bucket_of(rank.last_update));
  rank.touched.insert(bucket_of(step.update));
  rank.first_update = rank.first_update == 0 ? step.update : std::min(rank.first_update, step.update);
  rank.last_update = std::max(rank.last_update, step.update);
  return {};
}

std::string Ingest::store(const Target& target, const Record& record, const EvalRecord& eval) {
  // Workers always compute a loss. If it is not finite, the weights are unusable, regardless of BLEU.
  return insert_eval(database_, target.run, record, std::isfinite(eval.loss) || eval.loss_unknown);
}

std::string Ingest::store(const Target& target, const Record& record, const CheckpointRecord&) {
  return upsert_checkpoint(database_, target.run, record);
}

std::string Ingest::store(const Target& target, const Record& record, const ArtifactRecord&) {
  return upsert_artifact(database_, target.run, record);
}

std::string Ingest::store(const Target& target, const Record& record, const LogRecord& log) {
  logs_.append(target.run, {record.header.attempt, record.header.rank, record.header.time_ms, log.level, log.text});
  return {};
}

std::string Ingest::store(const Target& target, const Record& record, const LifecycleRecord& lifecycle) {
  const RecordHeader& header = record.header;
  database_.prepare("INSERT INTO lifecycle(run, attempt, rank, time_ms, name, detail) VALUES (?, ?, ?, ?, ?, ?)")
      .bind(target.run, header.attempt, header.rank, header.time_ms, lifecycle.event, lifecycle.detail)
      .run();
  if (lifecycle.pid > 0 || !lifecycle.device.empty()) {
    database_
        .prepare(
            "UPDATE ranks SET pid = max(pid, ?), device = coalesce(nullif(?, ''), device), "
            "peak_flops = max(peak_flops, ?), peak_bytes_per_second = max(peak_bytes_per_second, ?), "
            "libraries = coalesce(nullif(?, ''), libraries) "
            "WHERE run = ? AND attempt = ? AND rank = ?")
        .bind(lifecycle.pid, lifecycle.device, lifecycle.peak_flops, lifecycle.peak_bytes_per_second,
              libraries_text(lifecycle), target.run, header.attempt, header.rank)
        .run();
  }
  // Any rank may report a failure. Only rank 0 reports the end of the training.
  const bool ended = header.rank == 0 && (lifecycle.event == "finished" || lifecycle.event == "stopped");
  if (ended || lifecycle.event == "failed") {
    end_attempt(target, record, lifecycle);
  }
  if (lifecycle.event == "rewound") rewind(target, lifecycle.update);
  if (target.current && header.rank == 0 && lifecycle.event == "started") start_run(target, record, lifecycle);
  return {};
}

/// Handles a rollback to an earlier update within the same attempt: deletes the rank's outdated later steps.
void Ingest::rewind(const Target& target, std::int64_t update) {
  for (const char* sql : {"DELETE FROM steps WHERE run = ? AND rank = ? AND attempt = ? AND step > ?",
                          "DELETE FROM buckets WHERE run = ? AND rank = ? AND attempt = ? AND last_step > ?",
                          "DELETE FROM pyramid WHERE run = ? AND rank = ? AND attempt = ? AND last_step > ?"}) {
    database_.prepare(sql).bind(target.run, target.batch.rank, target.batch.attempt, update).run();
  }
  RankState& rank = target.rank;
  if (update < rank.first_update) rank.first_update = update = 0;  // no step of this attempt remains
  rank.last_update = std::min(rank.last_update, update);
  std::erase_if(rank.touched, [&](std::int64_t bucket) { return bucket > bucket_of(rank.last_update); });
}

void Ingest::start_run(const Target& target, const Record& record, const LifecycleRecord& lifecycle) {
  // Until now the attempt may have had the time at which it was launched or first heard of, by this server's clock.
  database_.prepare("UPDATE attempts SET started_ms = ? WHERE run = ? AND attempt = ?")
      .bind(record.header.time_ms, target.run, record.header.attempt)
      .run();
  database_
      .prepare(
          "UPDATE runs SET name = ?, config = ?, version = ?, world_size = ?, parameters = ?, max_updates = ?, "
          "end_text = ?, may_end_sooner = ?, data = ?, emulated = ?, bucket_mb = ?, optimizer = ?, "
          "started_ms = CASE WHEN ? = 1 THEN ? ELSE started_ms END WHERE "
          "run = ?")
      .bind(lifecycle.name, lifecycle.config, lifecycle.version, lifecycle.world_size, lifecycle.parameters,
            lifecycle.max_updates, lifecycle.end, lifecycle.may_end_sooner,
            lifecycle.data.is_object() ? to_text(lifecycle.data) : std::string(), lifecycle.device == "emulated",
            lifecycle.bucket_mb, lifecycle.optimizer, record.header.attempt, record.header.time_ms, target.run)
      .run();
  // Labels that the run has on the server stay: somebody may have changed them there.
  if (lifecycle.labels.is_object() && check_labels(lifecycle.labels.get_object())) {
    database_.prepare("UPDATE runs SET labels = json_patch(?, labels) WHERE run = ?")
        .bind(to_text(lifecycle.labels), target.run)
        .run();
  }
  target.result.run_changed = true;
}

/// Records the end reported by an attempt. For a run started by the server, the supervisor decides when the processes
/// have ended. For an external run, this report is the only source.
void Ingest::end_attempt(const Target& target, const Record& record, const LifecycleRecord& lifecycle) {
  // The first reported end wins: it names the original cause, while later ones are consequences.
  database_
      .prepare("UPDATE attempts SET outcome = ?, outcome_detail = ? WHERE run = ? AND attempt = ? AND outcome = ''")
      .bind(lifecycle.event, lifecycle.detail, target.run, record.header.attempt)
      .run();
  if (!target.current) return;  // only the newest attempt changes the state of the run
  Statement managed =
      database_.prepare("SELECT 1 FROM attempts WHERE run = ? AND attempt = ? AND launcher <> 'external'");
  managed.bind(target.run, record.header.attempt);
  if (managed.step()) return;
  const RunEvent event = lifecycle.event == "finished"  ? RunEvent::finished
                         : lifecycle.event == "stopped" ? RunEvent::ended_on_request
                                                        : RunEvent::gave_up;
  const std::int64_t ended_ms = end_on_clock_of_rank_0(target, record);
  change_state(database_, {record.header.run, event, lifecycle.detail, record.header.host, ended_ms},
               std::min(ended_ms, target.now_ms));
  database_.prepare("UPDATE attempts SET ended_ms = max(?, coalesce(started_ms, 0)) WHERE run = ? AND attempt = ?")
      .bind(ended_ms, target.run, record.header.attempt)
      .run();
  target.result.run_changed = true;
}

/// The record may come hours later, from a spool: it has the time of the end. Rank 0 told the start, and another host's
/// clock may differ from its own.
std::int64_t Ingest::end_on_clock_of_rank_0(const Target& target, const Record& record) {
  const RecordHeader& header = record.header;
  if (header.rank == 0) return header.time_ms;
  Statement first = database_.prepare(
      "SELECT 1 FROM ranks WHERE run = ? AND attempt = ? AND rank = 0 AND record_ms > 0 AND host <> ?");
  first.bind(target.run, header.attempt, header.host);
  return first.step() ? on_clock_of_records(database_, target.run, header.attempt, target.now_ms) : header.time_ms;
}

void Ingest::save_rank(const Target& target) {
  const Batch& batch = target.batch;
  RankState& rank = target.rank;
  for (const auto& [first, last] : rank.stored) {
    if (rank.arrived.ranges().contains(first)) continue;
    database_.prepare("DELETE FROM arrivals WHERE run = ? AND attempt = ? AND rank = ? AND first = ?")
        .bind(target.run, batch.attempt, batch.rank, first)
        .run();
  }
  for (const auto& [first, last] : rank.arrived.ranges()) {
    const auto stored = rank.stored.find(first);
    if (stored != rank.stored.end() && stored->second == last) continue;
    database_.prepare("INSERT OR REPLACE INTO arrivals(run, attempt, rank, first, last) VALUES (?, ?, ?, ?, ?)")
        .bind(target.run, batch.attempt, batch.rank, first, last)
        .run();
  }
  rank.stored = rank.arrived.ranges();
  std::int64_t record_ms = 0;
  for (const Record& record : batch.records) record_ms = std::max(record_ms, record.header.time_ms);
  database_
      .prepare(
          "UPDATE ranks SET first_update = ?, last_update = ?, updated_ms = ?, record_ms = max(record_ms, ?), "
          "host = coalesce(nullif(?, ''), host) WHERE run = ? AND attempt = ? AND rank = ?")
      .bind(rank.first_update, rank.last_update, target.now_ms, record_ms, batch.host, target.run, batch.attempt,
            batch.rank)
      .run();
  database_.prepare("UPDATE runs SET updated_ms = ? WHERE run = ?").bind(target.now_ms, target.run).run();
}

}  // namespace babelring::store

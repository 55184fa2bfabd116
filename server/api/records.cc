#include "server/api/records.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "base/names.h"
#include "base/records/records.h"
#include "server/access/audited.h"
#include "server/alerts/alert_watch.h"
#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/http/access.h"
#include "server/store/metrics.h"

namespace babelring::api {

store::ReportSender reporter_of(const http::Request& request) {
  using Reach = store::ReportSender::Reach;
  if (!request.caller) return {};
  const http::Caller& caller = *request.caller;
  store::ReportSender reporter{.reach = Reach::begun, .token = caller.token, .prefix = caller.run_prefix};
  if (caller.scope != http::Scope::ingest) {  // who may steer all runs
    reporter.reach = Reach::every_run;
  } else if (!caller.run.empty()) {
    reporter.reach = Reach::one_run;
  } else if (!caller.run_prefix.empty()) {
    reporter.reach = Reach::prefix;
  }
  return reporter;
}

http::Problem problem_of(store::Refusal::Kind kind, const std::string& detail) {
  using Kind = store::Refusal::Kind;
  switch (kind) {
    case Kind::not_its_run:
      break;
    case Kind::too_many_runs:
      return {429, "too_many_runs", detail};
    case Kind::attempt_refused:
      return {409, "attempt_refused", detail};
    case Kind::rank_refused:
      return {422, "rank_refused", detail};
    case Kind::sequence_refused:
      return {422, "sequence_refused", detail};
    case Kind::records_missing:
      return {409, "records_missing", detail};
  }
  return {403, "run_forbidden", detail};
}

http::Response refusal_response(const store::IngestResult& refused, const std::string& request_id) {
  using Kind = store::Refusal::Kind;
  const http::Problem problem = refused.refusal == Kind::records_missing
                                    ? problem_of(refused.refusal, refused.detail).with_member("stored", refused.stored)
                                    : problem_of(refused.refusal, refused.detail);
  http::Response response = http::problem_response(problem, request_id);
  if (refused.refusal == Kind::too_many_runs) response.set("Retry-After", "10");
  return response;
}

namespace {

constexpr std::size_t max_records = 10'000;
constexpr std::size_t max_metric_key_bytes = 128;
constexpr std::size_t max_names = 64;     // in memory_bytes and in gpu
constexpr std::size_t max_corpora = 256;  // as `nmt prepare` allows
constexpr std::size_t max_metric_text_bytes = 256;

/// Throws Problem 422 for record `index`.
[[noreturn]] void refuse_record(std::size_t index, const std::string& detail) {
  throw http::Problem(422, "record_refused", fmt::format("records[{}]: {}", index, detail),
                      {{fmt::format("/records/{}", index), detail}});
}

/// Refuses a digest that does not fit in a line of SHA256SUMS or in an entity tag.
void check_digest(const std::string& digest, const std::string& member, std::size_t index) {
  if (digest.size() == 64 && digest.find_first_not_of("0123456789abcdef") == std::string::npos) return;
  refuse_record(index, member + ": expected 64 hexadecimal digits");
}

/// Refuses texts for display that have control or invisible characters.
void check_names(const Record& record, std::size_t index) {
  const auto check = [&](std::string_view member, std::string_view name) {
    const Status checked = check_name(name);
    if (checked) return;
    throw http::Problem(422, "record_refused", fmt::format("records[{}].{}: {}", index, member, checked.error()),
                        {{fmt::format("/records/{}/{}", index, member), checked.error()}});
  };
  if (const auto* life = std::get_if<LifecycleRecord>(&record.body)) check("name", life->name);
  if (const auto* eval = std::get_if<EvalRecord>(&record.body)) check("set", eval->set);
  if (const auto* log = std::get_if<LogRecord>(&record.body)) check("level", log->level);
  if (const auto* step = std::get_if<StepRecord>(&record.body)) {
    for (const auto& [name, value] : step->memory_bytes) check("memory_bytes", name);
    for (const auto& [name, value] : step->gpu) check("gpu", name);
    for (const auto& [name, value] : step->corpus_loss) check("corpus_loss", name);
    for (const auto& [name, value] : step->corpus_tokens) check("corpus_tokens", name);
  }
  if (const auto* artifact = std::get_if<ArtifactRecord>(&record.body)) check("name", artifact->name);
  const auto* saved = std::get_if<CheckpointRecord>(&record.body);
  if (saved == nullptr) return;
  check("name", saved->name);
  for (std::size_t i = 0; i < saved->files.size(); ++i) {
    check(fmt::format("files/{}/name", i), saved->files[i].name);
    check_digest(saved->files[i].sha256, fmt::format("files[{}].sha256", i), index);
  }
}

void check_resamples(const EvalRecord& eval, std::size_t index) {
  if (eval.resamples.size() > max_resampled_metrics) {
    refuse_record(index, fmt::format("resamples: expected at most {} metrics", max_resampled_metrics));
  }
  for (std::size_t i = 0; i < eval.resamples.size(); ++i) {
    const Resamples& by = eval.resamples[i];
    const auto place = [&](const char* member) { return fmt::format("resamples[{}].{}", i, member); };
    check_digest(by.references, place("references"), index);
    check_digest(by.statistics, place("statistics"), index);
    for (const auto& [member, text] : {std::pair("metric", &by.metric), {"signature", &by.signature}}) {
      if (!check_name(*text) || text->size() > max_metric_text_bytes) {
        refuse_record(index,
                      fmt::format("{}: expected a name of at most {} bytes", place(member), max_metric_text_bytes));
      }
    }
    if (by.scores.empty() || by.scores.size() > max_resamples || !std::isfinite(by.score)) {
      refuse_record(index, fmt::format("{}: expected 1 to {} numbers and a score", place("scores"), max_resamples));
    }
  }
}

void check_artifact(const ArtifactRecord& artifact, std::size_t index) {
  const auto& kinds = artifact_kinds;
  if (std::find(kinds.begin(), kinds.end(), artifact.artifact) == kinds.end()) {
    refuse_record(index, fmt::format("artifact: expected {}", fmt::join(kinds, ", ")));
  }
  const std::string& name = artifact.name;
  if (name.empty() || name == "." || name == ".." || name.size() > 255 || name.find('/') != std::string::npos) {
    refuse_record(index, "name: expected a file name of at most 255 bytes");
  }
  if (!artifact.removed) check_digest(artifact.sha256, "sha256", index);
  if (!artifact.content.is_null() && to_text(artifact.content).size() > max_artifact_content_bytes) {
    refuse_record(index, fmt::format("content: expected at most {} bytes of JSON", max_artifact_content_bytes));
  }
}

/// Checks requirements of the store beyond the record schema.
void check_record(const Record& record, std::size_t index) {
  const auto refuse = [&](const std::string& detail) { refuse_record(index, detail); };
  const auto check_number = [&](const char* member, std::int64_t value, std::int64_t low) {
    if (value >= low && value <= max_number) return;
    refuse(fmt::format("{}: expected an integer from {} to {}, found {}", member, low, max_number, value));
  };
  check_number("sequence", record.header.sequence, 1);
  check_number("time_ms", record.header.time_ms, 0);
  check_names(record, index);
  if (const auto* eval = std::get_if<EvalRecord>(&record.body)) {
    check_number("update", eval->update, 0);
    check_number("best_before", eval->best_before, 0);
    check_resamples(*eval, index);
  }
  if (const auto* saved = std::get_if<CheckpointRecord>(&record.body)) check_number("update", saved->update, 0);
  if (const auto* artifact = std::get_if<ArtifactRecord>(&record.body)) {
    check_number("update", artifact->update, 0);
    check_number("size", artifact->size, 0);
    check_artifact(*artifact, index);
  }
  const auto* step = std::get_if<StepRecord>(&record.body);
  if (step == nullptr) return;
  check_number("update", step->update, 1);
  const auto check_keys = [&](const char* member, const auto& values, std::size_t max = max_names) {
    if (values.size() > max) refuse(fmt::format("{}: more than {} names", member, max));
    for (const auto& [name, value] : values) {
      if (name.size() > max_metric_key_bytes) refuse(fmt::format("{}: a name is longer than 128 bytes", member));
      if (name.find_first_of("\",/") != std::string::npos) {
        refuse(fmt::format("{}: a name has a reserved character", member));
      }
    }
  };
  check_keys("memory_bytes", step->memory_bytes);
  check_keys("gpu", step->gpu);
  check_keys("corpus_loss", step->corpus_loss, max_corpora);
  check_keys("corpus_tokens", step->corpus_tokens, max_corpora);
}

store::Batch parse_batch(const http::Request& request, telemetry::NewerWorkers& newer) {
  const std::string& run = request.parameter("run");
  require_run_id(run);
  UnknownMembers unknown;
  json::value body = parse_body(request);
  auto records = batch_from_json(run, body, &unknown);
  if (!records) throw http::Problem(422, "record_refused", records.error());
  if (records->empty()) throw http::Problem(422, "record_refused", "records: expected at least one");
  if (records->size() > max_records) throw http::Problem(422, "record_refused", "records: expected at most 10000");
  check_records(*records);
  const RecordHeader& header = records->front().header;
  if (unknown.count > 0) newer.report(run, unknown);
  store::Batch batch{run, header.attempt, header.rank, header.host, std::move(*records)};
  batch.unknown_members = unknown.count;
  batch.confirmed = Body(std::move(body), "").integer("confirmed", 0, max_number).value_or(0);
  return batch;
}

/// Publishes a committed batch to the event streams.
class Announcer {
 public:
  Announcer(Service& service, const store::Batch& batch) : service_(service), batch_(batch) {}

  void announce(const store::IngestResult& result) {
    for (const auto& [index, id] : result.fresh) {
      const Record& record = batch_.records[index];
      if (service_.alerts != nullptr) service_.alerts->observe(record);
      std::visit([&](const auto& body) { publish(record, body, id); }, record.body);
    }
    if (!steps_.empty()) service_.events.publish_steps(batch_.run, batch_.attempt, batch_.rank, std::move(steps_));
    if (result.run_changed && wants("state")) {
      auto reader = service_.store.reader(store::Store::For::own);
      if (const auto run = store::find_run(*reader, batch_.run)) {
        add("state", run_item(service_, *reader, *run, wall_time_ms()));
      }
    }
    service_.events.publish(batch_.run, std::move(messages_));
  }

 private:
  /// Whether the topic has listeners; cached per topic.
  bool wants(const std::string& topic) {
    const auto [known, fresh] = wanted_.try_emplace(topic, false);
    if (fresh) known->second = service_.events.wants(batch_.run, topic);
    return known->second;
  }
  void add(const std::string& topic, const json::object& item) { messages_.push_back({topic, to_text(item)}); }

  void publish(const Record& record, const StepRecord& step, const std::string&) {
    if (wants("metrics")) steps_.add(step.update, record.header.time_ms, store::stored_metrics(step));
  }
  void publish(const Record&, const EvalRecord&, const std::string& id) {
    if (!wants("eval")) return;
    auto reader = service_.store.reader(store::Store::For::own);
    auto eval = store::find_eval(*reader, id);
    if (!eval) return;
    eval->samples.clear();
    add("eval", eval_item(*eval));
  }
  void publish(const Record&, const CheckpointRecord&, const std::string& id) {
    if (!wants("checkpoint")) return;
    auto reader = service_.store.reader(store::Store::For::own);
    if (const auto checkpoint = store::find_checkpoint(*reader, id)) add("checkpoint", checkpoint_item(*checkpoint));
  }
  void publish(const Record&, const ArtifactRecord&, const std::string& id) {
    if (id.empty() || !wants("artifact")) return;
    auto reader = service_.store.reader(store::Store::For::own);
    if (const auto artifact = store::find_artifact(*reader, id)) add("artifact", artifact_item(*artifact));
  }
  void publish(const Record& record, const LogRecord& log, const std::string&) {
    if (!wants("log")) return;
    const json::object item = {{"run", batch_.run},
                               {"rank", record.header.rank},
                               {"attempt", record.header.attempt},
                               {"time", format_rfc3339(record.header.time_ms)},
                               {"level", log.level},
                               {"text", log.text}};
    add("log", item);
  }
  void publish(const Record&, const LifecycleRecord&, const std::string&) {}  // published as the run's state

  Service& service_;
  const store::Batch& batch_;
  std::map<std::string, bool> wanted_;  // by topic
  std::vector<events::EventHub::Message> messages_;
  events::MetricFrames steps_;
};

http::Response ingest_response(const store::IngestResult& result, const std::string& request_id) {
  using Status = store::IngestResult::Status;
  const auto problem = [&](int status, const char* code, const std::string& detail) {
    return http::problem_response(http::Problem(status, code, detail), request_id);
  };
  switch (result.status) {
    case Status::stored:
      break;
    case Status::refused:
      return refusal_response(result, request_id);
    case Status::rejected:
      return problem(422, "record_refused", result.detail);
    case Status::disk_full:
      return problem(507, "disk_full", "the disk of the database is full; nothing was stored");
    case Status::failed:
      return problem(503, "store_failed", "the database failed; nothing was stored, send it again");
  }
  return json_response(json::object{{"accepted", result.fresh.size()}, {"duplicates", result.duplicates}});
}

}  // namespace

void check_records(const std::vector<Record>& records) {
  for (std::size_t i = 0; i < records.size(); ++i) check_record(records[i], i);
  const RecordHeader& header = records.front().header;
  if (const Status host = check_name(header.host); !host) {
    throw http::Problem(422, "record_refused", "host: " + host.error(), {{"/host", host.error()}});
  }
  if (header.attempt > max_number || header.rank > max_rank) {
    throw http::Problem(422, "record_refused",
                        fmt::format("expected an attempt up to {} and a rank up to {}, found {} and {}", max_number,
                                    max_rank, header.attempt, header.rank));
  }
}

void announce_records(Service& service, const store::Batch& batch, const store::IngestResult& result) {
  try {
    Announcer(service, batch).announce(result);
  } catch (const std::exception& failure) {  // the records are stored; clients see them when they fetch
    spdlog::error("announce records of {}: {}", batch.run, failure.what());
  }
}

void ingest_records(Service& service, const std::shared_ptr<const http::Request>& request, const http::Reply& reply) {
  const auto row = std::make_shared<access::AuditedRow>(service.audit, *request, 200);
  store::Batch batch = parse_batch(*request, service.newer_workers);
  batch.reporter = reporter_of(*request);
  batch.in_transaction = [row](store::Database& database) { row->append(database); };
  const bool taken = service.store.submit(
      std::move(batch), [&service, request, row, reply](const store::Batch& stored, const store::IngestResult& result) {
        if (result.status == store::IngestResult::Status::stored) {
          row->committed();
          service.ranks.record(stored.reporter.token, stored.run, stored.rank, result.ranks);
        }
        reply(ingest_response(result, request->id));
        if (result.status != store::IngestResult::Status::stored) return;
        announce_records(service, stored, result);
      });
  if (!taken) throw http::Problem(503, "busy", "too many batches are waiting to be stored; send it again");
}

}  // namespace babelring::api

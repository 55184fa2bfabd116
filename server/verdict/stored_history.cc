#include "server/verdict/verdict_input.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "server/store/checkpoints.h"
#include "server/store/series/span_reader.h"
#include "server/store/steps.h"

namespace babelring::verdict {
namespace {

using insight::HistoryStep, insight::RunHistory, insight::StepThinning;
constexpr std::int64_t max_events = 10'000, max_evals = 20'000, max_checkpoints = 20'000;

const std::vector<std::string_view>& step_keys() {
  static const std::vector<std::string_view> keys = [] {
    std::vector<std::string_view> names;
    HistoryStep step;
    insight::visit_values(step, [&](std::string_view key, double) { names.push_back(key); });
    names.emplace_back("skipped");
    return names;
  }();
  return keys;
}

HistoryStep step_of(std::int64_t attempt, const store::StepValues& row) {
  HistoryStep step{.attempt = attempt};
  step.update = row.step;
  step.time_ms = row.time_ms;
  std::size_t place = 0;
  insight::visit_values(step, [&](std::string_view key, double& member) {
    const double value = row.values[place++];
    // A GPU's readings are absent where it gives none; the record's members never are.
    member = key == "gpu.utilization_percent" && !(value > 0) ? 0 : value;
  });
  step.skipped = row.values[place] > 0;
  return step;
}

/// Reads the steps of a span that the thinning keeps.
void read_span(store::Reader& reader, std::int64_t run, const store::Span& span, const StepThinning& thinning,
               std::vector<HistoryStep>& steps) {
  const auto read = [&](std::int64_t first, std::int64_t last) {
    if (last < first) return;
    for (const auto& row : store::read_steps(reader, run, span.rank, span.attempt, first, last, step_keys()))
      steps.push_back(step_of(span.attempt, row));
  };
  const std::int64_t stride = thinning.stride(span.rank), period = stride * StepThinning::window;
  const std::int64_t recent = std::max(span.first, thinning.oldest_recent());
  if (stride == 1) return read(span.first, span.last);
  for (std::int64_t begin = (span.first - 1) / period * period + 1; begin < recent; begin += period) {
    read(std::max(begin, span.first), std::min({begin + StepThinning::window - 1, recent - 1, span.last}));
  }
  read(recent, span.last);
}

void add_ranks(store::Reader& reader, const store::RunRow& run, RunHistory& history) {
  auto spans = store::effective_spans(reader, run.number, std::nullopt);
  std::int64_t last = 0;
  std::set<std::int64_t> numbers;
  std::erase_if(spans, [&](const store::Span& span) { return run.world_size > 0 && span.rank >= run.world_size; });
  for (const store::Span& span : spans) {
    last = std::max(last, span.last);
    numbers.insert(span.rank);
  }
  const StepThinning thinning(last, std::max(run.world_size, static_cast<std::int64_t>(numbers.size())));
  std::map<std::int64_t, insight::RankHistory> ranks;
  for (const store::Span& span : spans) {
    insight::RankHistory& rank = ranks[span.rank];
    rank.rank = span.rank;
    rank.host = span.host;
    read_span(reader, run.number, span, thinning, rank.steps);
  }
  for (const store::RankRow& row : store::list_ranks(reader, run.number, run.attempt)) {
    const auto found = ranks.find(row.rank);
    if (found == ranks.end()) continue;
    found->second.device = row.device;
    if (const auto libraries = parse_json(row.libraries); libraries.ok()) {
      found->second.libraries = library_versions_from_json(*libraries);
    }
    found->second.peak_flops = row.peak_flops;
    found->second.peak_bytes_per_second = row.peak_bytes_per_second;
  }
  for (auto& [number, rank] : ranks) history.ranks.push_back(std::move(rank));
}

void add_evals(store::Reader& reader, const store::RunRow& run, RunHistory& history) {
  for (const store::ReportedEval& row : store::list_reported_evals(reader, run.number, max_evals)) {
    auto body = parse_json(row.body);
    if (!body || !body->is_object()) continue;
    json::object& object = body->get_object();
    object["kind"] = "eval";
    object["run"] = run.id;
    object["attempt"] = row.attempt;
    object["rank"] = 0;
    object["sequence"] = 1;
    object["time_ms"] = row.time_ms;
    UnknownMembers newer;
    auto record = record_from_json(object, &newer);
    if (record.ok()) history.evals.push_back({row.attempt, row.time_ms, std::get<EvalRecord>(std::move(record->body))});
  }
}

std::vector<CheckpointFile> files_of(const std::string& text) {
  std::vector<CheckpointFile> files;
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_array()) return files;
  for (const json::value& file : parsed->get_array()) {
    files.push_back({std::string(file.at("name").as_string()), file.at("size").as_int64(),
                     std::string(file.at("sha256").as_string())});
  }
  return files;
}

void add_checkpoints(store::Reader& reader, const store::RunRow& run, RunHistory& history) {
  for (const store::CheckpointRow& row : store::list_checkpoints(reader, run.number, true, {0, 0}, max_checkpoints)) {
    history.checkpoints.push_back({row.created_ms,
                                   {.update = row.step,
                                    .name = row.name,
                                    .folder = row.folder,
                                    .files = files_of(row.files),
                                    .sacrebleu = row.sacrebleu,
                                    .loss = row.loss,
                                    .best = row.best,
                                    .removed = row.removed,
                                    .write_seconds = row.write_seconds,
                                    .version = row.version,
                                    .world_size = row.world_size}});
  }
}

}  // namespace

RunHistory read_stored_history(store::Reader& reader, const store::RunRow& run) {
  RunHistory history;
  history.run = run.id;
  history.name = run.name;
  history.version = run.version;
  history.config = run.config;
  history.end = run.end;
  history.attempt = run.attempt;
  history.world_size = run.world_size;
  history.parameters = run.parameters;
  history.max_updates = run.max_updates;
  history.may_end_sooner = run.may_end_sooner;
  history.bucket_mb = run.bucket_mb;
  history.optimizer = run.optimizer;
  if (auto data = parse_json(store::training_data_of(reader, run.number)); data.ok()) history.data = *std::move(data);
  for (const store::LifecycleRow& row : store::list_lifecycle(reader, run.number, max_events)) {
    if (row.name != "rank_up") history.events.push_back({row.attempt, row.time_ms, row.name, row.detail});
  }
  add_ranks(reader, run, history);
  add_evals(reader, run, history);
  add_checkpoints(reader, run, history);
  insight::complete_history(history);
  return history;
}

}  // namespace babelring::verdict

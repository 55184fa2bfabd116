#include "insight/report/spooled_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/failure.h"
#include "base/json.h"
#include "base/records/spool_reader.h"
#include "base/result.h"
#include "base/text.h"

namespace babelring::insight {

namespace fs = std::filesystem;

void HistoryCollector::add(const Record& record) {
  history_.run = record.header.run;
  std::visit([&](const auto& body) { add(record.header, body); }, record.body);
}

void HistoryCollector::add(const RecordHeader& header, const StepRecord& step) {
  RankHistory& rank = ranks_[header.rank];
  auto& steps = rank.steps;
  // An earlier update than the last: training was resumed or went back.
  while (!steps.empty() && steps.back().update >= step.update) steps.pop_back();
  steps.push_back(history_step(header.attempt, header.time_ms, step));
  rank.rank = header.rank;
  rank.host = header.host;
  last_update_ = std::max(last_update_, step.update);
  if (++steps_ >= thin_at_) thin();
}

void HistoryCollector::thin() {
  const auto last_rank = ranks_.empty() ? 0 : ranks_.rbegin()->first;
  const StepThinning thinning(last_update_, std::max(history_.world_size, last_rank + 1));
  steps_ = 0;
  for (auto& [number, rank] : ranks_) {
    std::erase_if(rank.steps, [&, id = number](const HistoryStep& step) { return !thinning.keeps(id, step.update); });
    steps_ += rank.steps.size();
  }
}

void HistoryCollector::add(const RecordHeader& header, const EvalRecord& eval) {
  HistoryEval& added = history_.evals.emplace_back(header.attempt, header.time_ms, eval);
  added.eval.samples.clear();
  added.eval.resamples.clear();
}

void HistoryCollector::add(const RecordHeader& header, const CheckpointRecord& checkpoint) {
  const bool best = checkpoint.best && std::isfinite(checkpoint.loss) && !checkpoint.removed;
  if (best) {
    for (auto& [name, other] : checkpoints_) other.checkpoint.best = false;
  }
  const auto [known, is_new] = checkpoints_.try_emplace(checkpoint.name, header.time_ms, checkpoint);
  CheckpointRecord& stored = known->second.checkpoint;
  const auto same_file = [](const CheckpointFile& a, const CheckpointFile& b) {
    return a.name == b.name && a.size == b.size && a.sha256 == b.sha256;
  };
  const bool again = !is_new && !checkpoint.removed && !checkpoint.files.empty() &&
                     (stored.removed || !std::ranges::equal(stored.files, checkpoint.files, same_file));
  if (again) known->second = {header.time_ms, checkpoint};
  stored.removed = checkpoint.removed;
  if (!checkpoint.removed) stored.best = best;
}

void HistoryCollector::add(const RecordHeader& header, const LifecycleRecord& lifecycle) {
  if (header.rank == 0 || lifecycle.event == "failed") {
    if (lifecycle.event != "rank_up")
      history_.events.push_back({header.attempt, header.time_ms, lifecycle.event, lifecycle.detail});
  }
  if (lifecycle.event == "rank_up") {
    RankHistory& rank = ranks_[header.rank];
    rank.device = lifecycle.device;
    rank.libraries = library_versions_from_json(lifecycle.libraries);
    rank.peak_flops = lifecycle.peak_flops;
    rank.peak_bytes_per_second = lifecycle.peak_bytes_per_second;
  }
  if (lifecycle.event != "started" || header.attempt < history_.attempt) return;
  history_.attempt = header.attempt;
  history_.name = lifecycle.name;
  history_.version = lifecycle.version;
  history_.config = lifecycle.config;
  history_.end = lifecycle.end;
  history_.world_size = lifecycle.world_size;
  history_.parameters = lifecycle.parameters;
  history_.max_updates = lifecycle.max_updates;
  history_.may_end_sooner = lifecycle.may_end_sooner;
  history_.bucket_mb = lifecycle.bucket_mb;
  history_.optimizer = lifecycle.optimizer;
  history_.data = lifecycle.data;
}

RunHistory HistoryCollector::finish() && {
  for (auto& [number, rank] : ranks_) history_.ranks.push_back(std::move(rank));
  for (auto& [name, checkpoint] : checkpoints_) history_.checkpoints.push_back(std::move(checkpoint));
  complete_history(history_);
  return std::move(history_);
}

namespace {

/// The number after `prefix` and before `suffix`, if the name is made so.
std::optional<std::int64_t> number_between(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() < prefix.size() + suffix.size()) return {};
  return parse_number<std::int64_t>(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
}

/// The spools of all attempts and ranks, in this order.
std::map<std::pair<std::int64_t, std::int64_t>, fs::path> all_spools(const fs::path& run) {
  std::map<std::pair<std::int64_t, std::int64_t>, fs::path> spools;
  std::error_code none;
  for (const auto& folder : fs::directory_iterator(run / "spool", none)) {
    const auto attempt = number_between(folder.path().filename().string(), "attempt-", "");
    if (!attempt) continue;
    for (const auto& file : fs::directory_iterator(folder.path(), none)) {
      const auto rank = number_between(file.path().filename().string(), "rank-", ".jsonl");
      if (rank) spools[{*attempt, *rank}] = file.path();
    }
  }
  return spools;
}

void add_spool(const fs::path& file, HistoryCollector& collector) {
  std::ifstream in(file, std::ios::binary);
  if (!in) fail("{}: cannot be read", file.string());
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const Result<json::value> object = parse_json(line);
    if (!object || !object->is_object()) continue;
    UnknownMembers newer;
    const Result<Record> record = record_from_json(object->get_object(), &newer);
    if (!record) fail("{}: line {}: {}", file.string(), number, record.error());
    collector.add(*record);
  }
}

}  // namespace

RunHistory read_spooled_history(const fs::path& run) {
  const auto spools = all_spools(run);
  const bool has_first_rank = std::ranges::any_of(spools, [](const auto& spool) { return spool.first.second == 0; });
  if (!has_first_rank) {
    throw UsageFailure(
        fmt::format("{}: found no spool/attempt-*/rank-0.jsonl, expected the folder of a run", run.string()));
  }
  HistoryCollector collector;
  for (const auto& [key, file] : spools) {
    for (const fs::path& part : spool_parts(file)) add_spool(part, collector);
  }
  return std::move(collector).finish();
}

}  // namespace babelring::insight

#include "server/artifacts/retention_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/checkpoint_names.h"
#include "server/artifacts/checkpoint_changes.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/retention_policy.h"
#include "server/http/problem.h"
#include "server/store/checkpoints.h"
#include "server/store/evals.h"
#include "server/store/runs.h"

namespace babelring::artifacts {
namespace {

namespace fs = std::filesystem;
constexpr auto interval = std::chrono::seconds(10);
constexpr auto after_a_failure = std::chrono::hours(1);  // or when a policy is set
constexpr std::int64_t max_checkpoints = 1000;           // of a run, looked at in one round

struct Candidates {
  std::vector<store::CheckpointRow> rows;  // newest first
  std::vector<RetentionCandidate> facts;
};

bool is_marked_best(const fs::path& folder) {
  return best_checkpoint_name(folder.parent_path()) == folder.filename();
}

RetentionCandidate facts_of(const Context& context, const store::CheckpointRow& row) {
  RetentionCandidate facts{
      .step = row.step, .sacrebleu = row.sacrebleu, .loss = row.loss, .pinned = row.pinned, .best = row.best};
  facts.bytes = bytes_of(manifest_of(row));
  const OnDisk state = inspect(context.roots, row);
  facts.intact = state == OnDisk::intact;
  facts.removable = (state == OnDisk::intact || state == OnDisk::damaged) && !context.downloads.in_use(row.id);
  if (state == OnDisk::intact || state == OnDisk::damaged) {
    const fs::path folder = folder_of(context.roots, row);
    facts.pinned = facts.pinned || is_marked(folder);
    facts.best = facts.best || is_marked_best(folder);
  }
  return facts;
}

Candidates candidates_of(const Context& context, const std::string& run_id) {
  Candidates candidates;
  store::ComparableScores scores;
  {
    auto reader = context.store.reader(store::Store::For::own);
    const auto run = store::find_run(*reader, run_id);
    store::CheckpointFilter filter;
    filter.limit = max_checkpoints;
    if (run) candidates.rows = store::list_checkpoints(*reader, run->number, filter);
    if (run) scores = store::comparable_scores(*reader, run->number);
  }
  for (const store::CheckpointRow& row : candidates.rows) {
    RetentionCandidate& facts = candidates.facts.emplace_back(facts_of(context, row));
    if (scores.other_loss.contains(row.step)) facts.loss = store::absent;
    if (scores.other_bleu.contains(row.step)) facts.sacrebleu = store::absent;
  }
  return candidates;
}

/// Checks digests from the newest checkpoint on until one is intact, as sizes do not show all damage and digests take
/// seconds. Marks the newer ones as damaged. Returns false if no checkpoint is intact.
bool find_newest_undamaged(const Context& context, Candidates& candidates, RetentionMemory& memory) {
  for (std::size_t place = 0; place < candidates.rows.size(); ++place) {
    RetentionCandidate& facts = candidates.facts[place];
    const store::CheckpointRow& row = candidates.rows[place];
    if (!facts.intact) continue;
    const auto [known, fresh] = memory.undamaged.try_emplace(row.id, false);
    if (fresh) {
      known->second = digests_match(context.roots, row);
      if (!known->second)
        spdlog::warn("retention: {} of {} is damaged and does not count towards keep_last", row.name, row.run);
    }
    if (known->second) return true;
    facts.intact = false;
  }
  return false;
}

void apply(const Context& context, const std::string& run_id, RetentionMemory& memory) {
  std::string text;
  {
    auto reader = context.store.reader(store::Store::For::own);
    const auto run = store::find_run(*reader, run_id);
    if (run) text = store::retention_of(*reader, run->number);
  }
  if (text.empty()) return;
  const auto policy = policy_from_json(parse_json(text).value());
  Candidates candidates = candidates_of(context, run_id);
  if (choose_removals(policy.value(), candidates.facts).empty()) return;
  if (!find_newest_undamaged(context, candidates, memory)) return;
  for (const std::size_t place : choose_removals(policy.value(), candidates.facts)) {
    const store::CheckpointRow& row = candidates.rows[place];
    const auto found = memory.refused.find(row.id);
    if (found != memory.refused.end() && SteadyClock::now() < found->second) continue;
    try {
      remove_by_retention(context, row);
      spdlog::info("retention: removed {} of {}", row.name, run_id);
    } catch (const http::Problem& problem) {  // the others are tried all the same
      memory.refused[row.id] = SteadyClock::now() + after_a_failure;
      spdlog::warn("retention: {} of {}: {}", row.name, run_id, problem.what());
    } catch (const std::exception& failure) {  // the store's: in the next round
      spdlog::warn("retention: {} of {}: {}", row.name, run_id, failure.what());
    }
  }
}

}  // namespace

Protection protection_on_disk(const Context& context, const store::CheckpointRow& checkpoint) {
  Candidates candidates = candidates_of(context, checkpoint.run);
  for (std::size_t place = 0; place < candidates.rows.size(); ++place) {
    if (candidates.rows[place].id == checkpoint.id) return protection_of(candidates.facts, place);
  }
  candidates.facts.push_back(facts_of(context, checkpoint));  // older than all of them
  return protection_of(candidates.facts, candidates.facts.size() - 1);
}

RetentionService::RetentionService(const Context& context)
    : context_(context), unfinished_(context), thread_("retention", interval, [this] { work(); }) {
  thread_.wake();
}

RetentionService::~RetentionService() {
  stopping_ = true;
}

void RetentionService::wake() {
  poked_ = true;
  thread_.wake();
}

void RetentionService::work() {
  if (!std::exchange(finished_, true)) unfinished_.finish(stopping_);
  if (poked_.exchange(false)) memory_ = {};
  apply_all();
}

void RetentionService::apply_all() {
  std::vector<std::string> runs;
  {
    auto reader = context_.store.reader(store::Store::For::own);
    runs = store::runs_with_retention(*reader);
  }
  for (const std::string& run : runs) apply(context_, run, memory_);
}

}  // namespace babelring::artifacts

#include "server/artifacts/retention_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/access/audited.h"
#include "server/api/body.h"
#include "server/api/conditional.h"
#include "server/api/responses.h"
#include "server/artifacts/checkpoint_changes.h"
#include "server/artifacts/checkpoint_files.h"
#include "server/artifacts/retention_policy.h"
#include "server/store/checkpoints.h"

namespace babelring::api {
namespace {

namespace fs = std::filesystem;
constexpr auto interval = std::chrono::seconds(10);
constexpr auto after_a_failure = std::chrono::hours(1);  // or when a policy is set
constexpr std::int64_t max_checkpoints = 1000;           // of a run, looked at in one round

struct Candidates {
  std::vector<store::CheckpointRow> rows;  // newest first
  std::vector<RetentionCandidate> facts;
};

bool is_linked_best(const fs::path& folder) {
  std::error_code error;
  return fs::read_symlink(folder.parent_path() / "best", error) == folder.filename();
}

RetentionCandidate facts_of(const Service& service, const store::CheckpointRow& row) {
  RetentionCandidate facts{
      .step = row.step, .sacrebleu = row.sacrebleu, .loss = row.loss, .pinned = row.pinned, .best = row.best};
  for (const ManifestFile& file : manifest_of(row)) facts.bytes += file.bytes;
  const OnDisk state = look_at(service, row);
  facts.intact = state == OnDisk::intact;
  facts.removable = (state == OnDisk::intact || state == OnDisk::damaged) && !service.downloads.in_use(row.id);
  if (state == OnDisk::intact || state == OnDisk::damaged) {
    const fs::path folder = folder_of(service, row);
    facts.pinned = facts.pinned || is_marked(folder);
    facts.best = facts.best || is_linked_best(folder);
  }
  return facts;
}

Candidates candidates_of(Service& service, const std::string& run_id) {
  Candidates candidates;
  {
    auto reader = service.store.reader(store::Store::For::own);
    const auto run = store::find_run(*reader, run_id);
    store::CheckpointFilter filter;
    filter.limit = max_checkpoints;
    if (run) candidates.rows = store::list_checkpoints(*reader, run->number, filter);
  }
  for (const store::CheckpointRow& row : candidates.rows) candidates.facts.push_back(facts_of(service, row));
  return candidates;
}

/// Sizes do not tell all damage, and digests take seconds. Marks as damaged what is newer than the newest checkpoint
/// whose digests are right. Returns false if there is none.
bool find_newest_undamaged(const Service& service, Candidates& candidates, RetentionMemory& memory) {
  for (std::size_t place = 0; place < candidates.rows.size(); ++place) {
    RetentionCandidate& facts = candidates.facts[place];
    const store::CheckpointRow& row = candidates.rows[place];
    if (!facts.intact) continue;
    const auto [known, fresh] = memory.undamaged.try_emplace(row.id, false);
    if (fresh) {
      known->second = digests_match(service, row);
      if (!known->second) spdlog::warn("retention: {} of {} is damaged: it keeps no other's place", row.name, row.run);
    }
    if (known->second) return true;
    facts.intact = false;
  }
  return false;
}

void apply(Service& service, const std::string& run_id, RetentionMemory& memory) {
  std::string text;
  {
    auto reader = service.store.reader(store::Store::For::own);
    const auto run = store::find_run(*reader, run_id);
    if (run) text = store::retention_of(*reader, run->number);
  }
  if (text.empty()) return;
  const auto policy = policy_from_json(parse_json(text).value());
  Candidates candidates = candidates_of(service, run_id);
  if (choose_removals(policy.value(), candidates.facts).empty()) return;
  if (!find_newest_undamaged(service, candidates, memory)) return;
  for (const std::size_t place : choose_removals(policy.value(), candidates.facts)) {
    const store::CheckpointRow& row = candidates.rows[place];
    const auto found = memory.refused.find(row.id);
    if (found != memory.refused.end() && SteadyClock::now() < found->second) continue;
    try {
      remove_by_retention(service, row);
      spdlog::info("retention: removed {} of {}", row.name, run_id);
    } catch (const http::Problem& problem) {  // the others are tried all the same
      memory.refused[row.id] = SteadyClock::now() + after_a_failure;
      spdlog::warn("retention: {} of {}: {}", row.name, run_id, problem.what());
    } catch (const std::exception& failure) {  // the store's: in the next round
      spdlog::warn("retention: {} of {}: {}", row.name, run_id, failure.what());
    }
  }
}

/// The member that a complaint begins with: "keep_best.count: expected …".
std::vector<http::Problem::Fault> faults_of_policy(const std::string& complaint) {
  const auto colon = complaint.find(": ");
  if (colon == std::string::npos || complaint.starts_with("expected ")) return {};  // of the whole body
  std::string pointer = "/" + complaint.substr(0, colon);
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return {{.pointer = std::move(pointer), .detail = complaint.substr(colon + 2)}};
}

json::object current_policy(store::Reader& reader, const store::RunRow& run) {
  const std::string text = store::retention_of(reader, run.number);
  return text.empty() ? to_json(RetentionPolicy{}) : parse_json(text).value().as_object();
}

http::Response show_retention(Service& service, const http::Request& request) {
  auto reader = service.store.reader(store::Store::For::own);
  return resource_response(request, current_policy(*reader, require_run(*reader, request)));
}

http::Response replace(Service& service, RetentionService& keeper, const http::Request& request) {
  const auto one_at_a_time = service.edits.lock(request.parameter("run"));
  std::optional<store::RunRow> run;
  {
    auto reader = service.store.reader(store::Store::For::own);
    run = require_run(*reader, request);
    require_match(request, state_of(current_policy(*reader, *run)));
  }
  const auto policy = policy_from_json(parse_body(request));
  if (!policy) throw http::Problem(422, "policy_refused", policy.error(), faults_of_policy(policy.error()));
  const json::object value = to_json(*policy);
  audited_write(service, request, 200, [&](store::Database& database) {
    store::set_retention(database, run->number, to_text(value), policy->max_log_bytes);
  });
  keeper.poke();
  return json_response(value);
}

}  // namespace

std::string protection_on_disk(Service& service, const store::CheckpointRow& checkpoint) {
  Candidates candidates = candidates_of(service, checkpoint.run);
  for (std::size_t place = 0; place < candidates.rows.size(); ++place) {
    if (candidates.rows[place].id == checkpoint.id) return protection_of(candidates.facts, place);
  }
  candidates.facts.push_back(facts_of(service, checkpoint));  // older than all of them
  return protection_of(candidates.facts, candidates.facts.size() - 1);
}

RetentionService::RetentionService(Service& service)
    : service_(service), unfinished_(service), thread_("retention", interval, [this] { work(); }) {
  thread_.wake();
}

RetentionService::~RetentionService() {
  stopping_ = true;
}

void RetentionService::poke() {
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
    auto reader = service_.store.reader(store::Store::For::own);
    runs = store::runs_with_retention(*reader);
  }
  for (const std::string& run : runs) apply(service_, run, memory_);
}

void add_retention_routes(http::Router& router, Service& service) {
  const std::string path = "/api/v1/runs/{run}/retention";
  router.add("GET", path, http::Scope::read,
             [&service](const http::Request& request) { return show_retention(service, request); });
  // The thread lives as long as the routes.
  auto keeper = std::make_shared<RetentionService>(service);
  add_body_route(router, "PUT", path, http::Scope::operate, std::size_t{16} << 10,
                 [&service, keeper](const http::Request& request) { return replace(service, *keeper, request); });
}

}  // namespace babelring::api

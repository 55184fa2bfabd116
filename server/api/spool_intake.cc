#include "server/api/spool_intake.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <future>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/records/run_marks.h"
#include "server/access/audited.h"
#include "server/api/control.h"
#include "server/api/records.h"
#include "server/artifacts/lab_files.h"
#include "server/store/steps.h"

namespace babelring::api {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_batch_records = 1000;
constexpr std::size_t max_batch_bytes = std::size_t{1} << 20;
constexpr std::int64_t recent_ms = 86'400'000;         // since a run's end
constexpr std::chrono::minutes look_again{10};         // for folders of runs
constexpr std::size_t max_folders_looked_at = 10'000;  // for run.json

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() == fs::file_type::regular;
}

/// The id in a folder's run.json; empty if there is none.
std::string run_of(const fs::path& folder) {
  const fs::path file = folder / "run.json";
  if (!is_file(file)) return "";
  const auto content = parse_json(read_file(file));
  return content.ok() && content->is_object() ? get_text(content->get_object(), "run") : "";
}

/// Whether the run was to report to a server and none has confirmed any of its records.
bool awaits_server(const fs::path& folder, const std::vector<SpoolFile>& spools) {
  const auto run = read_run_file(folder);
  const bool has_rank_0 = std::ranges::any_of(spools, [](const SpoolFile& spool) { return spool.rank == 0; });
  return run && !run->server.empty() && has_rank_0 && std::ranges::none_of(spools, [](const SpoolFile& spool) {
           const auto mark = read_spool_mark(spool.file);
           return mark && mark->end > 0;
         });
}

bool is_trained_in(const fs::path& folder, const std::vector<SpoolFile>& spools) {
  return has_writer(folder / "run.lock") ||
         std::ranges::any_of(spools, [](const SpoolFile& spool) { return has_writer(spool.file); });
}

}  // namespace

std::int64_t SpoolIntake::take(std::optional<SteadyClock::time_point> until) {
  const std::lock_guard lock(mutex_);
  until_ = until;
  std::vector<store::RunLocation> runs;
  {
    auto reader = service_.store.reader(store::Store::For::own);
    const std::int64_t since = service_.store.wal_damage() ? 0 : wall_time_ms() - recent_ms;
    runs = store::places_of_runs(*reader, since);
  }
  std::int64_t taken = 0;
  for (const store::RunLocation& run : runs) {
    fs::path folder = run.folder;
    if (folder.empty() && !run.checkpoint.empty()) folder = fs::path(run.checkpoint).parent_path().parent_path();
    if (folder.empty()) folder = find_folder(run.id);
    const auto spools = artifacts::folder_below(service_.checkpoint_roots, folder / "spool", "spool");
    if (!spools || is_late()) continue;
    try {
      taken += take_run(run.id, run.number, spools->parent_path());
    } catch (const std::exception& failure) {  // affects only this run
      spdlog::warn("spools of run {}: {}", run.id, failure.what());
    }
  }
  return taken + take_unknown();
}

std::int64_t SpoolIntake::take_unknown() {
  if (took_unknown_) return 0;
  look_for_folders();
  std::int64_t taken = 0;
  for (const auto& [run, folder] : folders_) {
    if (is_late()) return taken;
    try {
      const auto spools = artifacts::folder_below(service_.checkpoint_roots, folder / "spool", "spool");
      const bool known = store::is_or_was_run(*service_.store.reader(store::Store::For::own), run);
      if (known || !spools || !awaits_server(spools->parent_path(), list_spools(*spools))) continue;
      taken += take_run(run, 0, spools->parent_path());
    } catch (const std::exception& failure) {  // affects only this run
      spdlog::warn("spools of run {}, which is new: {}", run, failure.what());
    }
  }
  took_unknown_ = !is_late();
  return taken;
}

fs::path SpoolIntake::find_folder(const std::string& run) {
  if (!looked_ || SteadyClock::now() - *looked_ >= look_again) look_for_folders();
  const auto found = folders_.find(run);
  return found != folders_.end() ? found->second : fs::path();
}

void SpoolIntake::look_for_folders() {
  looked_ = SteadyClock::now();
  folders_.clear();
  std::size_t looked = 0;
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (const fs::path& root : service_.checkpoint_roots) {
    fs::recursive_directory_iterator entry(root, options, error);
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      if (is_late()) return looked_.reset();  // the rest waits for the next time
      if (!entry->is_directory(error) || ++looked > max_folders_looked_at) continue;
      const std::string found = run_of(entry->path());
      if (!found.empty()) folders_.emplace(found, entry->path());
      if (!found.empty() || entry.depth() >= 2) entry.disable_recursion_pending();
    }
  }
}

std::int64_t SpoolIntake::take_run(const std::string& run, std::int64_t number, const fs::path& folder) {
  const std::vector<SpoolFile> spools = list_spools(folder / "spool");
  if (spools.empty() || is_trained_in(folder, spools) || run_of(folder) != run) return 0;
  std::int64_t taken = 0;
  for (const SpoolFile& place : spools) {
    if (is_late()) break;
    std::error_code error;
    const std::pair state(fs::file_size(place.file, error), fs::last_write_time(place.file, error));
    const auto done = done_.find(place.file);
    if (error || !is_file(place.file) || (done != done_.end() && done->second == state)) continue;
    try {
      if (!take_spool({run, number, place}, taken)) break;
    } catch (const std::exception& failure) {  // another time would be the same
      spdlog::warn("run {}: spool {} is left: {}", run, place.file.string(), failure.what());
    }
    done_.insert_or_assign(place.file, state);
  }
  return taken;
}

bool SpoolIntake::take_spool(const Spool& spool, std::int64_t& taken) {
  std::int64_t stored = 0;
  {
    auto reader = service_.store.reader(store::Store::For::own);
    const auto ranges = store::read_arrivals(reader->database, spool.number, spool.place.attempt, spool.place.rank);
    if (!ranges.empty()) stored = ranges.rbegin()->second;
  }
  if (last_spool_sequence(spool.place.file) <= stored) return true;
  SpoolReader lines(spool.place.file);
  lines.seek(stored);
  std::int64_t fresh = 0;
  bool waits = false;
  for (;;) {
    const SpoolReader::Batch batch = lines.next(max_batch_records, max_batch_bytes);
    if (batch.lines == 0) break;
    const auto accepted = is_late() ? std::nullopt : store(spool, batch.records);
    waits = !accepted;
    if (waits) break;
    fresh += *accepted;
    lines.acknowledge(batch);  // not saved: the mark tells what the worker knows
  }
  if (fresh > 0) spdlog::info("run {}: took {} records from spool {}", spool.run, fresh, spool.place.file.string());
  taken += fresh;
  return !waits;
}

std::optional<std::int64_t> SpoolIntake::store(const Spool& spool, std::span<const Record> records) {
  using Status = store::IngestResult::Status;
  if (records.empty()) return 0;
  std::string refusal;
  const RecordHeader& header = records.front().header;
  if (header.run != spool.run || header.attempt != spool.place.attempt || header.rank != spool.place.rank) {
    fail("it has records of run {}, attempt {}, rank {}", header.run, header.attempt, header.rank);
  }
  store::Batch batch{header.run, header.attempt, header.rank, header.host, {records.begin(), records.end()}};
  try {
    check_records(batch.records);
  } catch (const http::Problem& problem) {
    refusal = problem.what();
  }
  if (refusal.empty()) {
    batch.in_transaction = [&](store::Database& database) {
      service_.audit.append(database, access::note_of_server("POST", "/api/v1/runs/{run}/records",
                                                             "/api/v1/runs/" + spool.run + "/records", 200));
    };
    std::promise<store::IngestResult> promise;
    const bool submitted =
        service_.store.submit(std::move(batch), [&](const store::Batch& stored, const store::IngestResult& result) {
          if (result.status == Status::stored) announce_records(service_, stored, result);
          promise.set_value(result);
        });
    if (!submitted) return std::nullopt;
    const store::IngestResult result = promise.get_future().get();
    if (result.status == Status::stored) return static_cast<std::int64_t>(result.fresh.size());
    if (result.status == Status::refused) fail("{}", result.detail);
    if (result.status != Status::rejected) return std::nullopt;
    refusal = result.detail;
  }
  if (records.size() == 1) {
    skip(spool, records.front(), refusal);
    return 0;
  }
  const auto half = records.first(records.size() / 2);
  const auto first = store(spool, half);
  const auto second = first ? store(spool, records.subspan(half.size())) : std::nullopt;
  return second ? std::optional(*first + *second) : std::nullopt;
}

void SpoolIntake::skip(const Spool& spool, const Record& record, const std::string& why) {
  if (!warned_.insert(spool.place.file).second) return;
  spdlog::warn("spool {}: record {} is refused, and maybe others: {}", spool.place.file.string(),
               record.header.sequence, why);
}

}  // namespace babelring::api

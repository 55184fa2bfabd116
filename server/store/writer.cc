#include "server/store/writer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/failpoint.h"
#include "server/store/home.h"

namespace babelring::store {
namespace {

constexpr std::size_t max_batches_together = 64;
constexpr auto idle = std::chrono::seconds(2);

void quick_check(Database& database) {
  const std::string verdict = database.scalar("PRAGMA quick_check(1)");
  if (verdict != "ok") fail("database is damaged: {}; restore a backup or move it away", verdict);
}

/// Copies the write-ahead log into the database while the writer is idle, and cuts its file if a long reader made it
/// grow. Returns false if a reader still needs a part of it. A failure, for example a full disk, loses nothing: it is
/// tried again after the next write.
bool checkpoint_wal(Database& database) {
  constexpr std::int64_t kept_pages = 2000;  // the size at which SQLite copies it by itself: wal_autocheckpoint
  try {
    std::int64_t busy = 0, pages = 0, copied = 0;
    const auto copy = [&](const char* sql) {
      Statement checkpoint = database.prepare(sql);
      checkpoint.next(busy, pages, copied);
    };
    copy("PRAGMA wal_checkpoint(PASSIVE)");
    if (copied < pages) return false;
    if (pages <= kept_pages) return true;
    database.set_busy_timeout(0);  // readers of the newest state are not waited for
    copy("PRAGMA wal_checkpoint(TRUNCATE)");
    database.set_busy_timeout(Database::busy_timeout_ms);
    return busy == 0;
  } catch (const SqlFailure& failure) {
    database.set_busy_timeout(Database::busy_timeout_ms);
    spdlog::error("write-ahead log: checkpoint failed: {}", failure.what());
  }
  return true;
}

std::size_t text_bytes(const StepRecord& step) {
  return (step.memory_bytes.size() + step.gpu.size() + step.corpus_loss.size() + step.corpus_tokens.size()) * 64;
}
std::size_t text_bytes(const EvalRecord& eval) {
  std::size_t bytes = 0;
  for (const EvalSample& sample : eval.samples) {
    bytes += sizeof sample + sample.source.size() + sample.reference.size() + sample.hypothesis.size();
  }
  for (const Resamples& by : eval.resamples)
    bytes += sizeof by + by.signature.size() + by.scores.size() * sizeof(double);
  return bytes;
}
std::size_t text_bytes(const CheckpointRecord& checkpoint) {
  return checkpoint.files.size() * (sizeof(CheckpointFile) + 128);
}
std::size_t text_bytes(const ArtifactRecord& artifact) {
  return artifact.content.is_null() ? 0 : to_text(artifact.content).size();
}
std::size_t text_bytes(const LogRecord& log) {
  return log.text.size();
}
std::size_t text_bytes(const LifecycleRecord& lifecycle) {
  return lifecycle.config.size() + lifecycle.detail.size() + to_text(lifecycle.data).size();
}

/// Approximate size of a batch in memory.
std::size_t bytes_of(const Batch& batch) {
  std::size_t bytes = sizeof(Batch);
  for (const Record& record : batch.records) {
    bytes += sizeof(Record) + record.header.host.size() +
             std::visit([](const auto& body) { return text_bytes(body); }, record.body);
  }
  return bytes;
}

}  // namespace

void WriterCounters::record_commit(double seconds) {
  const auto& bounds = WriterCounts::commit_bounds_s;
  const auto place = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
  const std::lock_guard lock(mutex_);
  ++counts_.commits[static_cast<std::size_t>(place)];
  counts_.commit_seconds += seconds;
}

void WriterCounters::record_batch(const Batch& batch, const IngestResult& result) {
  std::uint64_t points = 0;
  for (const auto& fresh : result.fresh) {
    const auto* step = std::get_if<StepRecord>(&batch.records[fresh.index].body);
    if (step == nullptr) continue;
    points += values_per_step_ + step->memory_bytes.size() + step->gpu.size() + step->corpus_loss.size() +
              step->corpus_tokens.size();
  }
  const std::lock_guard lock(mutex_);
  ++counts_.batches;
  counts_.records += result.fresh.size();
  counts_.duplicates += static_cast<std::uint64_t>(result.duplicates);
  counts_.points += points;
  counts_.unknown_members += static_cast<std::uint64_t>(batch.unknown_members);
}

void WriterCounters::record_failure(bool refused) {
  const std::lock_guard lock(mutex_);
  ++(refused ? counts_.refused : counts_.failed);
}

WriterCounts WriterCounters::read() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

Writer::Writer(const std::filesystem::path& file, bool check)
    : database_(file, Database::Mode::writer), ingest_(database_) {
  if (check) quick_check(database_);
  migrate(database_);
  thread_ = std::thread([this] { loop(); });
}

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool Writer::submit(Batch batch, Acknowledge acknowledge) {
  const std::size_t bytes = bytes_of(batch);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || !refusal_.empty() || !has_room(batch.run, bytes)) return false;
    bytes_ += bytes;
    bytes_of_run_[batch.run] += bytes;
    const std::string run = batch.run;
    jobs_.push(run, Job{std::move(batch), std::move(acknowledge), {}, bytes});
  }
  wake_.notify_one();
  return true;
}

bool Writer::has_room(const std::string& run, std::size_t bytes) const {
  if (waiting() >= max_waiting || jobs_.size_of(run) >= max_waiting_of_run) return false;
  const auto of_run = bytes_of_run_.find(run);
  if (of_run != bytes_of_run_.end() && of_run->second + bytes > max_waiting_bytes_of_run) return false;
  return bytes_ == 0 || bytes_ + bytes <= max_waiting_bytes;
}

void Writer::execute(Change change) {
  Task task{std::move(change), {}};
  std::future<void> done = task.done.get_future();
  {
    const std::lock_guard lock(mutex_);
    if (!refusal_.empty()) throw Busy(refusal_);
    if (stopping_ || waiting() >= max_waiting) throw Busy("too many writes are waiting already");
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
  done.get();
}

void Writer::refuse_all(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  refusal_ = reason;
}

bool Writer::refuses_all() const {
  const std::lock_guard lock(mutex_);
  return !refusal_.empty();
}

bool Writer::crowded() const {
  const std::lock_guard lock(mutex_);
  return waiting() >= max_waiting / 2 || bytes_ >= max_waiting_bytes / 2;
}

void Writer::loop() {
  bool wal_pending = false;
  bool tasks_turn = false;  // after each commit of batches
  for (;;) {
    std::vector<Job> jobs;
    std::optional<Task> task;
    {
      std::unique_lock lock(mutex_);
      const bool woken = wake_.wait_for(lock, idle, [&] { return stopping_ || waiting() > 0; });
      if (waiting() == 0 && stopping_) return;
      if (!woken) {
        lock.unlock();
        if (wal_pending) wal_pending = !checkpoint_wal(database_);
        continue;
      }
      tasks_turn = !tasks_.empty() && (tasks_turn || jobs_.empty());
      if (tasks_turn) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
      } else {
        jobs = take_jobs();
      }
    }
    wal_pending = true;
    tasks_turn = !tasks_turn;
    if (task) {
      perform(*task);
      continue;
    }
    commit(jobs);
    acknowledge(std::move(jobs));
  }
}

void Writer::acknowledge(std::vector<Job> jobs) {
  std::vector<std::pair<std::string, std::size_t>> released;
  for (Job& job : jobs) {
    job.acknowledge(job.batch, job.result);
    failpoint("acknowledged");
    released.emplace_back(job.batch.run, job.bytes);
  }
  jobs.clear();
  const std::lock_guard lock(mutex_);
  for (const auto& [run, bytes] : released) {
    bytes_ -= bytes;
    const auto of_run = bytes_of_run_.find(run);
    if ((of_run->second -= bytes) == 0) bytes_of_run_.erase(of_run);
  }
}

std::vector<Writer::Job> Writer::take_jobs() {
  std::vector<Job> jobs;
  std::size_t records = 0;
  while (!jobs_.empty() && jobs.size() < max_batches_together && records < max_records_together) {
    jobs.push_back(jobs_.pop());
    records += jobs.back().batch.records.size();
  }
  return jobs;
}

void Writer::perform(Task& task) {
  try {
    Transaction transaction(database_);
    task.change(database_);
    transaction.commit();
    ++revision_;
    ingest_.forget();  // the change may have made its caches stale
    task.done.set_value();
  } catch (...) {  // rethrown in the waiting thread
    ingest_.forget();
    task.done.set_exception(std::current_exception());
  }
}

void Writer::commit(std::vector<Job>& jobs) {
  if (try_commit(jobs, 0, jobs.size()) || jobs.size() == 1) return;
  // One bad batch must not fail the others.
  for (std::size_t i = 0; i < jobs.size(); ++i) try_commit(jobs, i, 1);
}

bool Writer::try_commit(std::vector<Job>& jobs, std::size_t first, std::size_t count) {
  using Status = IngestResult::Status;
  const auto refuse = [&](Status status, const char* detail) {
    if (count == 1) counters_.record_failure(status == Status::rejected);  // those of a group are tried one by one
    ingest_.forget();
    for (std::size_t i = first; i < first + count; ++i) {
      jobs[i].result = IngestResult{};
      jobs[i].result.status = status;
      jobs[i].result.detail = detail;
    }
    return false;
  };
  try {
    Transaction transaction(database_);
    const std::int64_t now_ms = wall_time_ms();
    bool stored = false;
    for (std::size_t i = first; i < first + count; ++i) {
      jobs[i].result = ingest_.apply(jobs[i].batch, now_ms);
      if (jobs[i].result.status != Status::stored) continue;
      stored = true;
      if (jobs[i].batch.in_transaction) jobs[i].batch.in_transaction(database_);
    }
    const Stopwatch committing;
    failpoint("applied");
    transaction.commit();
    if (stored) ++revision_;
    failpoint("committed");
    if (stored) counters_.record_commit(committing.elapsed_ms() / 1000);
    for (std::size_t i = first; i < first + count; ++i) {
      if (jobs[i].result.status == Status::stored) {
        counters_.record_batch(jobs[i].batch, jobs[i].result);
      } else {
        counters_.record_failure(true);
      }
    }
    return true;
  } catch (const Rejected& rejected) {
    return refuse(Status::rejected, rejected.what());
  } catch (const SqlFailure& failure) {
    spdlog::error("ingest: {}", failure.what());
    return refuse(failure.full() ? Status::disk_full : Status::failed, failure.what());
  } catch (const std::exception& failure) {
    spdlog::error("ingest: {}", failure.what());
    return refuse(Status::failed, failure.what());
  }
}

}  // namespace babelring::store

#include "server/api/audit_log.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "nmt/base/clock.h"

namespace babelring::api {
namespace {

constexpr auto between_saves = std::chrono::seconds(30);
constexpr std::size_t most_noted = 50'000;

store::AuditRow row_of(const http::WriteNote& note) {
  return {0,          note.time_ms, note.actor,  note.token,   note.method,
          note.route, note.object,  note.status, note.request, note.address};
}

}  // namespace

AuditLog::AuditLog(store::Store& store, TokenBook& tokens, const Limits& limits)
    : store_(store), tokens_(tokens), limits_(limits), thread_([this] { loop(); }) {}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool AuditLog::repeats(const http::WriteNote& note, bool remember) {
  // Refused clients could otherwise push everything else out of the audit. By route, as they choose the path.
  const bool refused = note.status == 401 || note.status == 403 || note.status == 421;
  if (!note.ingest && !refused) return false;
  std::string key = fmt::format("{} {} {} {} {}", note.token, note.address, note.method,
                                refused ? note.route : note.object, note.status);
  const auto found = noted_.find(key);
  if (found != noted_.end() && note.time_ms - found->second < limits_.repeat_ms) return true;
  if (!remember) return false;
  if (noted_.size() >= most_noted) noted_.clear();
  noted_[std::move(key)] = note.time_ms;
  return false;
}

void AuditLog::append(store::Database& database, const http::WriteNote& note) {
  {
    const std::lock_guard lock(mutex_);
    if (repeats(note, false)) return;
  }
  const store::AuditRow row = row_of(note);
  store::append_audit(database, {&row, 1}, limits_.rows);
}

void AuditLog::committed(http::WriteNote& note) {
  note.kept = true;
  const std::lock_guard lock(mutex_);
  repeats(note, true);  // only now: another's transaction may have been undone
}

void AuditLog::note(http::WriteNote note, std::function<void()> then) {
  bool taken = false;
  {
    const std::lock_guard lock(mutex_);
    if (!repeats(note, true)) {
      taken = then || queue_.size() < limits_.waiting;  // what waits for it holds a connection: bounded too
      if (!taken) ++dropped_;
    }
    if (taken) {
      queue_.push_back({row_of(note), std::move(then)});
    }
  }
  if (taken) {
    wake_.notify_one();
  } else if (then) {
    then();
  }
}

void AuditLog::loop() {
  for (;;) {
    std::vector<Waiting> batch;
    bool last = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, between_saves, [&] { return stopping_ || !queue_.empty(); });
      batch.swap(queue_);
      last = stopping_;
      if (const auto dropped = std::exchange(dropped_, 0); dropped > 0) {
        spdlog::error("audit: {} refused writes came too fast to be noted", dropped);
      }
    }
    if (!batch.empty()) write(batch);
    if (last && batch.empty()) return;
    if (SteadyClock::now() - saved_ >= between_saves) save_uses();
  }
}

void AuditLog::save_uses() {
  saved_ = SteadyClock::now();
  try {
    tokens_.save_uses();
  } catch (const std::exception& failure) {
    spdlog::warn("tokens: {}", failure.what());
  }
}

void AuditLog::write(std::vector<Waiting>& batch) {
  std::vector<store::AuditRow> rows;
  for (Waiting& waiting : batch) rows.push_back(std::move(waiting.row));
  try {
    store_.write([&](store::Database& database) { store::append_audit(database, rows, limits_.rows); });
  } catch (const std::exception& failure) {  // the log has them instead
    spdlog::error("audit: {}", failure.what());
    for (const store::AuditRow& row : rows) {
      spdlog::warn("audit: {} {} by {} from {}: {} [{}]", row.method, row.object, row.actor, row.address, row.status,
                   row.request);
    }
  }
  for (Waiting& waiting : batch) {
    if (waiting.then) waiting.then();
  }
}

}  // namespace babelring::api

#include "server/api/audit_log.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "nmt/base/clock.h"

namespace babelring::api {
namespace {

constexpr auto between_saves = std::chrono::seconds(30);
constexpr std::size_t most_noted = 50'000;

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

bool AuditLog::repeats(const http::WriteNote& note) {
  if (!note.ingest) return false;
  if (noted_.size() >= most_noted) noted_.clear();
  auto& last_ms = noted_[fmt::format("{} {} {} {}", note.token, note.address, note.object, note.status)];
  if (last_ms > 0 && note.time_ms - last_ms < limits_.repeat_ms) return true;
  last_ms = note.time_ms;
  return false;
}

void AuditLog::note(http::WriteNote note, std::function<void()> then) {
  bool taken = false;
  {
    const std::lock_guard lock(mutex_);
    if (!repeats(note)) {
      taken = queue_.size() < limits_.waiting;
      if (!taken) ++dropped_;
    }
    if (taken) {
      store::AuditRow row{0,
                          note.time_ms,
                          std::move(note.actor),
                          std::move(note.token),
                          std::move(note.method),
                          std::move(note.route),
                          std::move(note.object),
                          note.status,
                          std::move(note.request),
                          std::move(note.address)};
      queue_.push_back({std::move(row), std::move(then)});
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
        spdlog::error("audit: {} refused or failed writes came too fast to be noted", dropped);
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

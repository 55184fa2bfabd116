#include "server/access/audit_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/clock.h"

namespace babelring::access {
namespace {

constexpr auto between_saves = std::chrono::seconds(30);
constexpr auto between_removals = std::chrono::hours(1);
constexpr std::size_t max_joined = 50'000;          // max entries in joined_ and in sources_
constexpr const char* all_anonymous = "anonymous";  // differs from every token's id and address
constexpr std::int64_t rows_a_removal = 10'000;
constexpr std::int64_t not_written = -1;  // the entry of a row whose write failed

store::AuditRow row_of(const http::WriteNote& note) {
  store::AuditRow row;
  row.time_ms = row.last_ms = note.time_ms;
  row.kept_by_age = note.kept_by_age;
  row.actor = note.actor;
  row.token = note.token;
  row.method = note.method;
  row.route = note.route;
  row.object = note.object;
  row.status = note.status;
  row.request = note.request;
  row.address = note.address;
  return row;
}

/// The key that repeats have in common; empty for a note that is never joined. For unauthorized clients the key has the
/// route instead of the path, since they choose the path.
std::string key_of(const http::WriteNote& note) {
  const bool refused = note.status >= 400;
  if (note.kept || (!refused && !note.ingest)) return {};
  return fmt::format("{} {} {} {} {}", note.token, note.address, note.method,
                     refused && !note.kept_by_age ? note.route : note.object, note.status);
}

}  // namespace

AuditLog::AuditLog(store::Store& store, TokenService& tokens, const Limits& limits)
    : store_(store), tokens_(tokens), limits_(limits), age_ms_(limits.age_ms), thread_([this] { loop(); }) {}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::shared_ptr<AuditLog::Joined> AuditLog::earlier(const std::string& key, std::int64_t time_ms) const {
  const auto found = joined_.find(key);
  if (found == joined_.end() || found->second->entry == not_written) return nullptr;
  return time_ms - found->second->first_ms < limits_.repeat_ms ? found->second : nullptr;
}

void AuditLog::count_repeat(const std::shared_ptr<Joined>& joined, std::int64_t time_ms) {
  ++counts_.joined;
  ++joined->unwritten;
  joined->last_ms = std::max(joined->last_ms, time_ms);
  if (!std::exchange(joined->listed, true)) repeated_.push_back(joined);
}

AuditLog::Source& AuditLog::source(const std::string& name, std::int64_t time_ms) {
  if (sources_.size() >= max_joined) sources_.clear();
  Source& found = sources_.try_emplace(name, Source{.since_ms = time_ms}).first->second;
  if (time_ms - found.since_ms >= limits_.repeat_ms) found = {.since_ms = time_ms};
  return found;
}

std::string AuditLog::key_for(const http::WriteNote& note) {
  std::string key = key_of(note);
  if (key.empty() || note.kept_by_age || earlier(key, note.time_ms)) return key;
  if (note.token.empty() && source(all_anonymous, note.time_ms).rows >= 10 * limits_.rows_a_source) {
    return fmt::format("{} {}", all_anonymous, note.status);
  }
  const std::string& name = note.token.empty() ? note.address : note.token;
  if (source(name, note.time_ms).rows < limits_.rows_a_source) return key;
  return fmt::format("{} {}", name, note.status);
}

std::shared_ptr<AuditLog::Joined> AuditLog::begin_joined(std::string key, const http::WriteNote& note,
                                                         std::int64_t entry) {
  if (joined_.size() >= max_joined) joined_.clear();  // repeats then start new rows, which are bounded too
  if (!note.kept_by_age) {
    ++source(note.token.empty() ? note.address : note.token, note.time_ms).rows;
    if (note.token.empty()) ++source(all_anonymous, note.time_ms).rows;
  }
  auto joined = std::make_shared<Joined>(Joined{.entry = entry, .first_ms = note.time_ms, .last_ms = note.time_ms});
  joined_[std::move(key)] = joined;
  return joined;
}

std::int64_t AuditLog::append(store::Database& database, const http::WriteNote& note) {
  {
    const std::lock_guard lock(mutex_);
    if (const std::string key = key_for(note); !key.empty() && earlier(key, note.time_ms)) return 0;
  }
  return store::append_audit(database, row_of(note));
}

void AuditLog::committed(http::WriteNote& note, std::int64_t entry) {
  const std::lock_guard lock(mutex_);
  std::string key = key_for(note);
  note.kept = true;
  if (entry > 0 && !note.kept_by_age && bounded_rows_ >= 0) ++bounded_rows_;
  if (key.empty()) return;
  if (entry > 0) {  // not before the commit, since a transaction may be rolled back
    begin_joined(std::move(key), note, entry);
  } else if (const auto joined = earlier(key, note.time_ms)) {
    count_repeat(joined, note.time_ms);
  }
}

void AuditLog::record(http::WriteNote note, std::function<void()> then) {
  bool taken = false;
  {
    const std::lock_guard lock(mutex_);
    std::string key = key_for(note);
    const auto joined = key.empty() ? nullptr : earlier(key, note.time_ms);
    if (joined) {
      count_repeat(joined, note.time_ms);
    } else {
      taken = then || note.kept_by_age ||
              queue_.size() < limits_.waiting;  // pending notes hold a connection, so they are bounded too
      if (!taken) ++counts_.lost;
    }
    if (taken) {
      auto begun = key.empty() ? nullptr : begin_joined(std::move(key), note, 0);
      queue_.push_back({row_of(note), std::move(begun), std::move(then)});
    }
  }
  if (taken) {
    wake_.notify_one();
  } else if (then) {
    then();
  }
}

void AuditLog::complete(std::vector<store::AuditRow>& rows) const {
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> unwritten;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& joined : repeated_) unwritten[joined->entry] = {joined->unwritten, joined->last_ms};
  }
  for (store::AuditRow& row : rows) {
    const auto found = unwritten.find(row.number);
    if (found == unwritten.end()) continue;
    row.count += found->second.first;
    row.last_ms = std::max(row.last_ms, found->second.second);
  }
}

AuditLog::Counts AuditLog::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void AuditLog::loop() {
  remove_old();
  for (;;) {
    std::vector<Waiting> batch;
    bool last = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, between_saves, [&] { return stopping_ || !queue_.empty(); });
      batch.swap(queue_);
      last = stopping_;
      if (const auto lost = counts_.lost - std::exchange(told_lost_, counts_.lost); lost > 0) {
        spdlog::error("audit: {} refused writes were not recorded: too many were pending", lost);
      }
    }
    if (!batch.empty()) write(batch);
    const bool ends = last && batch.empty();
    if (ends || SteadyClock::now() - saved_ >= between_saves) {
      saved_ = SteadyClock::now();
      write_repeats();
      save_uses();
    }
    remove_old();
    if (ends) return;
  }
}

void AuditLog::save_uses() {
  try {
    tokens_.save_uses();
  } catch (const std::exception& failure) {
    spdlog::warn("tokens: {}", failure.what());
  }
}

void AuditLog::write(std::vector<Waiting>& batch) {
  std::vector<std::int64_t> entries;
  try {
    store_.write([&](store::Database& database) {
      entries.clear();  // the transaction may be retried
      for (const Waiting& waiting : batch) entries.push_back(store::append_audit(database, waiting.row));
    });
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].joined) batch[i].joined->entry = entries[i];
      if (!batch[i].row.kept_by_age && bounded_rows_ >= 0) ++bounded_rows_;
    }
  } catch (const std::exception& failure) {  // write them to the log instead
    spdlog::error("audit: {}", failure.what());
    const std::lock_guard lock(mutex_);
    for (const Waiting& waiting : batch) {
      if (waiting.joined) waiting.joined->entry = not_written;
      const store::AuditRow& row = waiting.row;
      spdlog::warn("audit: {} {} by {} from {}: {} [{}]", row.method, row.object, row.actor, row.address, row.status,
                   row.request);
    }
  }
  for (Waiting& waiting : batch) {
    if (waiting.then) waiting.then();
  }
}

void AuditLog::write_repeats() {
  struct Repeat {
    std::shared_ptr<Joined> joined;
    std::int64_t entry, count, last_ms;
  };
  std::vector<Repeat> repeats;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(repeated_, [](const auto& joined) { return joined->entry == not_written; });
    for (const auto& joined : repeated_) {
      if (joined->entry > 0) repeats.push_back({joined, joined->entry, joined->unwritten, joined->last_ms});
    }
  }
  if (repeats.empty()) return;
  try {
    store_.write([&](store::Database& database) {
      for (const Repeat& repeat : repeats) store::repeat_audit(database, repeat.entry, repeat.count, repeat.last_ms);
    });
  } catch (const std::exception& failure) {  // retried later
    spdlog::error("audit: {}", failure.what());
    return;
  }
  const std::lock_guard lock(mutex_);
  for (const Repeat& repeat : repeats) {
    repeat.joined->unwritten -= repeat.count;
    repeat.joined->listed = repeat.joined->unwritten > 0;
  }
  std::erase_if(repeated_, [](const auto& joined) { return !joined->listed; });
}

/// Rows kept by count may exceed their limit by 1 %, so that not every new row requires a deletion.
void AuditLog::remove_old() {
  std::int64_t bounded = 0;
  {
    const std::lock_guard lock(mutex_);
    bounded = bounded_rows_;
  }
  const bool too_many = bounded < 0 || bounded > limits_.rows + limits_.rows / 100;
  const bool ages = SteadyClock::now() - aged_ >= between_removals;
  if (!too_many && !ages) return;
  struct Removed {
    std::int64_t displaced, expired, left;
  };
  try {
    for (bool more = true; more;) {
      const Removed removed = store_.write([&](store::Database& database) {
        return Removed{store::bound_audit(database, limits_.rows),
                       store::expire_audit(database, wall_time_ms() - age_ms_, rows_a_removal),
                       store::count_audit(database)};
      });
      more = removed.expired == rows_a_removal;
      const std::lock_guard lock(mutex_);
      bounded_rows_ = removed.left;
      counts_.displaced += static_cast<std::uint64_t>(removed.displaced);
      counts_.expired += static_cast<std::uint64_t>(removed.expired);
    }
    aged_ = SteadyClock::now();
  } catch (const std::exception& failure) {  // retried with the next rows
    spdlog::error("audit: {}", failure.what());
  }
}

}  // namespace babelring::access

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "server/access/token_service.h"
#include "server/http/access.h"
#include "server/store/access.h"

namespace babelring::access {

/// Records every write request in the store, on its own thread; pending notes are committed together. Repeated ingest
/// requests and refusals are joined: the row of the first one counts them. Also saves the tokens' times of last use
/// every 30 s. Thread-safe.
class AuditLog : public http::AuditTrail {
 public:
  struct Limits {
    std::int64_t rows = 100'000;                          // max rows of the kind kept by count; the newest stay
    std::int64_t age_ms = std::int64_t{90} * 86'400'000;  // max age of rows of the kind kept by age
    std::size_t waiting = 10'000;        // max pending rows kept by count; more are dropped and counted
    std::int64_t repeat_ms = 3'600'000;  // after this time a repeat starts a new row
    // Max rows kept by count that one token or address starts in that time; ten times as many for all clients without a
    // token together. Further requests are joined by status alone.
    std::int64_t rows_a_source = 500;
  };
  AuditLog(store::Store& store, TokenService& tokens) : AuditLog(store, tokens, Limits{}) {}
  AuditLog(store::Store& store, TokenService& tokens, const Limits& limits);
  /// Writes pending rows.
  ~AuditLog() override;
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  store::Store& store() const { return store_; }

  /// Replaces Limits::age_ms.
  void keep_for(std::int64_t age_ms) { age_ms_ = age_ms; }

  /// Writes the note's row in the same transaction as the change that it describes. Returns the row's entry; 0 for a
  /// repeat. Throws SqlFailure.
  std::int64_t append(store::Database& database, const http::WriteNote& note);
  /// Must be called after that transaction's commit, with the result of append().
  void committed(http::WriteNote& note, std::int64_t entry);

  /// Calls `then` on the log's thread once the note is written, or at once if there is nothing to write.
  void record(http::WriteNote note, std::function<void()> then) override;

  /// Adds repeats that are counted but not yet written to rows read from the store.
  void complete(std::vector<store::AuditRow>& rows) const;

  /// Counts since the start of the process.
  struct Counts {
    std::uint64_t joined = 0;     // requests counted by an earlier row
    std::uint64_t expired = 0;    // rows deleted for their age
    std::uint64_t displaced = 0;  // rows deleted to make room for newer ones
    std::uint64_t lost = 0;       // refusals dropped because too many were pending
  };
  Counts counts() const;

 private:
  /// A row that stands for repeats.
  struct Joined {
    std::int64_t entry = 0;  // 0: pending; -1: the write failed
    std::int64_t first_ms = 0, last_ms = 0;
    std::int64_t unwritten = 0;  // repeats not yet added to the row
    bool listed = false;         // in repeated_
  };
  struct Waiting {
    store::AuditRow row;
    std::shared_ptr<Joined> joined;  // null: the row stands alone
    std::function<void()> then;
  };
  void loop();
  void write(std::vector<Waiting>& batch);
  void write_repeats();
  void remove_old();
  void save_uses();
  /// Rows started by one token or address.
  struct Source {
    std::int64_t since_ms = 0, rows = 0;
  };
  /// The key that repeats of the note have in common; empty if notes of its kind are never joined. Requires mutex_,
  /// like the next four functions.
  std::string key_for(const http::WriteNote& note);
  Source& source(const std::string& name, std::int64_t time_ms);
  /// The row that a note with this key repeats; null if there is none.
  std::shared_ptr<Joined> earlier(const std::string& key, std::int64_t time_ms) const;
  void count_repeat(const std::shared_ptr<Joined>& joined, std::int64_t time_ms);
  std::shared_ptr<Joined> begin_joined(std::string key, const http::WriteNote& note, std::int64_t entry);

  store::Store& store_;
  TokenService& tokens_;
  const Limits limits_;
  std::atomic<std::int64_t> age_ms_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Waiting> queue_;
  std::unordered_map<std::string, std::shared_ptr<Joined>> joined_;
  std::unordered_map<std::string, Source> sources_;
  std::vector<std::shared_ptr<Joined>> repeated_;  // rows with unwritten repeats
  Counts counts_;
  std::uint64_t told_lost_ = 0;
  std::int64_t bounded_rows_ = -1;  // rows kept by count; -1: not counted yet
  bool stopping_ = false;
  SteadyClock::time_point saved_ = SteadyClock::now(), aged_{};  // used by the thread only
  std::thread thread_;                                           // last member: starts after all others are constructed
};

}  // namespace babelring::access

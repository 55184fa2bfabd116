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
#include "server/api/token_book.h"
#include "server/http/access.h"
#include "server/store/audit.h"

namespace babelring::api {

/// Writes down in the store who changed what, on a thread of its own: notes that wait together are committed together.
/// Ingest and refusals that repeat an earlier one are joined: the first one's row counts them. Also saves the tokens'
/// times of last use every half minute.
class AuditLog : public http::AuditTrail {
 public:
  struct Limits {
    std::int64_t rows = 100'000;                          // the newest of those kept by count
    std::int64_t age_ms = std::int64_t{90} * 86'400'000;  // of those kept by age
    std::size_t waiting = 10'000;                         // rows to be kept by count; more are dropped and counted
    std::int64_t repeat_ms = 3'600'000;                   // after this time a repeat begins another row
    // Rows kept by count that one token or address begins in that time, and ten times as many all clients without a
    // token; what comes beyond is joined by status alone.
    std::int64_t rows_a_source = 500;
  };
  AuditLog(store::Store& store, TokenBook& tokens) : AuditLog(store, tokens, Limits{}) {}
  AuditLog(store::Store& store, TokenBook& tokens, const Limits& limits);
  /// Writes what waits.
  ~AuditLog() override;
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// Replaces Limits::age_ms.
  void keep_for(std::int64_t age_ms) { age_ms_ = age_ms; }

  /// Writes the note's row within the store's transaction in which what it tells of is done. Returns its entry; 0 for a
  /// repeat. Throws SqlFailure.
  std::int64_t append(store::Database& database, const http::WriteNote& note);
  /// After that transaction's commit, with what append() returned: the note is kept.
  void committed(http::WriteNote& note, std::int64_t entry);

  /// `then` is called on the log's thread, or at once where there is nothing to write.
  void note(http::WriteNote note, std::function<void()> then) override;

  /// Adds to rows that were read what is counted but not yet written.
  void complete(std::vector<store::AuditRow>& rows) const;

  /// Since the start.
  struct Counts {
    std::uint64_t joined = 0;     // requests counted by an earlier row
    std::uint64_t expired = 0;    // rows deleted for their age
    std::uint64_t displaced = 0;  // rows deleted as newer ones came
    std::uint64_t lost = 0;       // refusals that came too fast to be noted
  };
  Counts counts() const;

 private:
  /// A row that stands for repeats.
  struct Joined {
    std::int64_t entry = 0;  // 0: waits to be written; -1: the database did not take it
    std::int64_t first_ms = 0, last_ms = 0;
    std::int64_t unwritten = 0;  // repeats that the row does not count yet
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
  /// Rows that a token or an address has begun.
  struct Source {
    std::int64_t since_ms = 0, rows = 0;
  };
  /// With mutex_ held, like the next four: the key that repeats of the note share; empty if notes of its kind are never
  /// joined.
  std::string key_for(const http::WriteNote& note);
  Source& source(const std::string& name, std::int64_t time_ms);
  /// The row of which the note is a repeat; null if there is none.
  std::shared_ptr<Joined> earlier(const std::string& key, std::int64_t time_ms) const;
  void count_repeat(const std::shared_ptr<Joined>& joined, std::int64_t time_ms);
  std::shared_ptr<Joined> begin_joined(std::string key, const http::WriteNote& note, std::int64_t entry);

  store::Store& store_;
  TokenBook& tokens_;
  const Limits limits_;
  std::atomic<std::int64_t> age_ms_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Waiting> queue_;
  std::unordered_map<std::string, std::shared_ptr<Joined>> joined_;
  std::unordered_map<std::string, Source> sources_;
  std::vector<std::shared_ptr<Joined>> repeated_;  // with repeats to be written
  Counts counts_;
  std::uint64_t told_lost_ = 0;
  std::int64_t bounded_rows_ = -1;  // rows kept by count; -1: not counted yet
  bool stopping_ = false;
  SteadyClock::time_point saved_ = SteadyClock::now(), aged_{};  // of the thread alone
  std::thread thread_;                                           // last: starts when everything else is there
};

}  // namespace babelring::api

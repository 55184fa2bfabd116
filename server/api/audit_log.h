#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nmt/base/clock.h"
#include "server/api/token_book.h"
#include "server/http/access.h"
#include "server/store/audit.h"

namespace babelring::api {

/// Writes down in the store who changed what, on a thread of its own: notes that wait together are committed together.
/// Also saves the tokens' times of last use every half minute.
class AuditLog : public http::AuditTrail {
 public:
  struct Limits {
    std::int64_t rows = 100'000;         // the newest are kept
    std::size_t waiting = 10'000;        // more are dropped and counted
    std::int64_t repeat_ms = 3'600'000;  // an ingest or refusal like an earlier one is noted once in this time
  };
  AuditLog(store::Store& store, TokenBook& tokens) : AuditLog(store, tokens, Limits{}) {}
  AuditLog(store::Store& store, TokenBook& tokens, const Limits& limits);
  /// Writes what waits.
  ~AuditLog() override;
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// Writes the note's row within the store's transaction in which what it tells of is done. An ingest that was noted
  /// within the hour has no row of its own. Throws SqlFailure.
  void append(store::Database& database, const http::WriteNote& note);
  /// After that transaction's commit: the note is kept.
  void committed(http::WriteNote& note);

  /// Ingest, and what the gate refused, are not noted again where they repeat what was noted within the hour. `then` is
  /// called on the log's thread, or at once where there is nothing to write.
  void note(http::WriteNote note, std::function<void()> then) override;

 private:
  struct Waiting {
    store::AuditRow row;
    std::function<void()> then;
  };
  void loop();
  void write(std::vector<Waiting>& batch);
  void save_uses();
  bool repeats(const http::WriteNote& note, bool remember);  // with mutex_ held

  store::Store& store_;
  TokenBook& tokens_;
  const Limits limits_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Waiting> queue_;
  std::map<std::string, std::int64_t> noted_;  // ingest and refusals: when each was last noted
  std::int64_t dropped_ = 0;
  bool stopping_ = false;
  SteadyClock::time_point saved_ = SteadyClock::now();  // of the thread alone
  std::thread thread_;                                  // last: starts when everything else is there
};

}  // namespace babelring::api

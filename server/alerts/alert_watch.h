#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/records/records.h"
#include "base/repeating_thread.h"
#include "server/alerts/engine.h"
#include "server/store/alerts.h"
#include "server/store/store.h"

namespace babelring::alerts {

/// Evaluates the alert rules over ingested records and the changes of runs' states once per `interval` on its own
/// thread, and raises and clears alerts. If the database accepts no writes, the changes are written later. Thread-safe.
class AlertWatch {
 public:
  /// Called on the watch's thread for each alert that was raised or cleared.
  using OnChange = std::function<void(const store::AlertRow&)>;
  /// Called for the same alerts within the transaction that stores them. May throw SqlFailure.
  using InTransaction = std::function<void(store::Database&, const store::AlertRow&)>;

  /// `folders`: watched for free disk space, in addition to the folders below them to which active runs write their
  /// checkpoints. The store must outlive the watch. Throws SqlFailure.
  AlertWatch(store::Store& store, std::vector<std::filesystem::path> folders, OnChange on_change,
             std::chrono::milliseconds interval = std::chrono::seconds(2), InTransaction in_transaction = {});
  AlertWatch(const AlertWatch&) = delete;
  AlertWatch& operator=(const AlertWatch&) = delete;

  /// Takes in a stored record. Cheap; called on the writer's thread.
  void observe(const Record& record);
  /// Takes in a heartbeat: a sign of life without a record.
  void heard(const std::string& run, std::int64_t attempt, std::int64_t rank, const std::string& host);
  /// Reads the rules again before the next evaluation.
  void reload();

 private:
  void judge();
  std::vector<FreeSpace> free_space() const;
  /// Reads the events that no call has returned yet, and the runs of all open ones.
  RunEvents read_events(store::Reader& reader, std::set<std::string> runs);
  void write(const std::vector<Change>& changes);

  store::Store& store_;
  const std::vector<std::filesystem::path> folders_;
  const OnChange on_change_;
  const InTransaction in_transaction_;
  std::mutex mutex_;  // guards engine_ and reload_
  Engine engine_;
  bool reload_ = false;
  std::vector<Change> unwritten_;          // used by the thread only
  std::set<std::int64_t> unmarked_;        // transitions that it has judged but not yet marked as told
  std::optional<RepeatingThread> thread_;  // last member: it uses all the others
};

/// Converts a stored rule. Throws Failure for a kind that this program does not know.
Rule rule_of(const store::AlertRuleRow& row);
store::AlertRuleRow row_of(const Rule& rule);

}  // namespace babelring::alerts

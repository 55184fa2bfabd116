#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/records.h"
#include "base/repeating_thread.h"
#include "server/alerts/engine.h"
#include "server/store/alerts.h"
#include "server/store/store.h"

namespace babelring::alerts {

/// Follows what is ingested and raises alerts, by a thread of its own that judges once an `interval`. A database that
/// takes no writes holds nothing up: what was found is written when it takes them again. Thread-safe.
class AlertWatch {
 public:
  /// Called on the watch's thread for each alert that was raised or cleared.
  using OnChange = std::function<void(const store::AlertRow&)>;

  /// `folders` are those whose file systems must not fill up, and others below them to which active runs write their
  /// checkpoints. The store must outlive the watch. Throws SqlFailure.
  AlertWatch(store::Store& store, std::vector<std::filesystem::path> folders, OnChange on_change,
             std::chrono::milliseconds interval = std::chrono::seconds(2));
  AlertWatch(const AlertWatch&) = delete;
  AlertWatch& operator=(const AlertWatch&) = delete;

  /// A record that was stored. Quick; for the writer's thread.
  void observe(const Record& record);
  /// A rank gave a sign of life without a record.
  void heard(const std::string& run, std::int64_t attempt, std::int64_t rank, const std::string& host);
  /// The rules have changed: they are read again before the next judgement.
  void reload();

 private:
  void judge();
  std::vector<FreeSpace> free_space() const;
  void write(const std::vector<Change>& changes);

  store::Store& store_;
  const std::vector<std::filesystem::path> folders_;
  const OnChange on_change_;
  std::mutex mutex_;  // guards engine_ and reload_
  Engine engine_;
  bool reload_ = false;
  std::vector<Change> unwritten_;          // of the thread alone
  std::optional<RepeatingThread> thread_;  // last
};

/// The engine's words for a stored rule. Throws Failure for a kind that this program does not know.
Rule rule_of(const store::AlertRuleRow& row);
store::AlertRuleRow row_of(const Rule& rule);

}  // namespace babelring::alerts

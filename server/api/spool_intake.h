#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/records/spool_reader.h"
#include "server/api/service.h"

namespace babelring::api {

/// Takes records that workers could not deliver from their spools, as far as these lie below the server's roots: a run
/// that ends while the server is away has nobody who sends them later. It looks at runs that are not over or that ended
/// within the last day, and after damage of the write-ahead log at all runs. Once, it looks for runs that the server
/// has never heard of, because they also began while it was away: those whose run.json names a server, and of which no
/// server has confirmed a record. It leaves a folder alone while a process trains there. Batches are checked and
/// announced like those of the ingest route. Thread-safe.
class SpoolIntake {
 public:
  explicit SpoolIntake(Service& service) : service_(service) {}

  /// Looks at each run once, but begins no further batch after `until`. Returns the number of records that were new.
  std::int64_t take(std::optional<SteadyClock::time_point> until = std::nullopt);
  /// Lets take() end after its present batch.
  void stop() { stopped_ = true; }

 private:
  struct Spool {
    std::string run;
    std::int64_t number = 0;  // of the run
    SpoolFile place;
  };
  std::int64_t take_run(const std::string& run, std::int64_t number, const std::filesystem::path& folder);
  /// Takes the runs that the server does not know.
  std::int64_t take_unknown();
  /// Adds the number of new records. False if the rest has to wait: for more time, or for the database.
  bool take_spool(const Spool& spool, std::int64_t& taken);
  /// Stores records and returns how many were new; nothing if the server cannot store them now. Refused ones are
  /// skipped.
  std::optional<std::int64_t> store(const Spool& spool, std::span<const Record> records);
  void skip(const Spool& spool, const Record& record, const std::string& why);
  /// The folder of a run below the roots, as run.json says; empty if there is none. Looks again after ten minutes.
  std::filesystem::path find_folder(const std::string& run);
  void look_for_folders();
  bool is_late() const { return stopped_ || (until_ && SteadyClock::now() >= *until_); }

  Service& service_;
  std::mutex mutex_;  // held by take()
  std::atomic<bool> stopped_ = false;
  bool took_unknown_ = false;  // all of them
  std::optional<SteadyClock::time_point> until_;
  std::map<std::string, std::filesystem::path> folders_;  // by run
  std::optional<SteadyClock::time_point> looked_;         // for folders_
  /// Size and time of spools from which there is nothing more to take.
  std::map<std::filesystem::path, std::pair<std::uintmax_t, std::filesystem::file_time_type>> done_;
  std::set<std::filesystem::path> warned_;  // spools of which a record was refused
};

}  // namespace babelring::api

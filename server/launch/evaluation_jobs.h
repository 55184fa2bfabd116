#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "server/launch/host_choice.h"
#include "server/launch/launcher.h"

namespace babelring::launch {

/// The jobs that evaluate runs beside their attempts (Profile::evaluation), one for each run. A job that fails is
/// started again after a pause, which doubles with each failure; after `max_failures`, or after wrong usage, only the
/// run's next attempt starts it again, and likewise a job that somebody ended on purpose. A job outlives its run until
/// the last checkpoint is evaluated. Not thread-safe.
class EvaluationJobs {
 public:
  using Time = SteadyClock::time_point;
  /// Called with the run and one sentence about each job that failed.
  using Report = std::function<void(const std::string& run, const std::string& sentence)>;

  explicit EvaluationJobs(Report report) : report_(std::move(report)) {}

  /// Starts the run's job if the profile has one and none is in progress. `launcher` must outlive this.
  void start(const Profile& profile, const LaunchOrder& order, Launcher& launcher, Time now);
  /// True if start() was called for the run, which has not ended since.
  bool knows(const std::string& run) const { return jobs_.contains(run); }
  /// Looks at all jobs and starts those that are due. `active` are the runs that have not ended.
  void tick(const std::set<std::string>& active, Time now);
  /// True if a job is in progress or will be started again.
  bool has_work() const;

  static constexpr int max_failures = 8;  // about nine minutes after the first
  static constexpr auto first_pause = std::chrono::seconds(10);

 private:
  struct Job {
    Profile profile;  // a copy: the profiles may be read again meanwhile
    LaunchOrder order;
    Launcher* launcher;
    std::optional<store::LauncherHandle> handle = std::nullopt;  // in progress
    std::optional<Time> due = std::nullopt;                      // the next start, after a failure
  };

  void begin(Job& job, Time now);
  void look_at(Job& job, bool active, Time now);
  void fail_job(Job& job, const std::string& why, bool hopeless, Time now);

  Report report_;
  std::map<std::string, Job> jobs_;  // by run
  CoolDown pauses_;                  // by run
};

}  // namespace babelring::launch

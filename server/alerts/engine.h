#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/records/records.h"
#include "server/alerts/rules.h"

namespace babelring::alerts {

/// An alert is raised or cleared. (rule, run, subject) identifies an alert; at most one with the same key is open.
struct Change {
  bool raised = true;
  std::string rule, run, subject;  // run: empty for the server itself; subject: a rank, folder or owner, or empty
  Kind kind = Kind::nan;
  std::string message;  // for people: the value found and the usual or expected one
  double value = 0, threshold = 0;
};

/// A run in state `running`.
struct RunningRun {
  std::string run;
  std::int64_t attempt = 1;
  std::int64_t update = 0;  // newest stored update of that attempt
  std::string begun_by;     // token that reported the run first; empty: unknown
  bool emulated = false;    // it has no losses
};

/// An event in the life of a run that raises alerts.
struct RunEvent {
  Kind kind = Kind::failed;  // restarted, failed or finished
  std::string run, begun_by;
  std::int64_t attempt = 0;  // in which it happened; the subject of the alert
  std::string message;
  double value = 0;  // restarts so far, or the newest update
};

/// A run of which an event has raised an alert, as it stands now.
struct RunAfterEvent {
  std::string begun_by;
  std::int64_t attempt = 0;
  bool trains = false;  // that attempt has completed an update
  bool failed = false, ended = false;
  bool hidden = false;  // archived or deleted
};

/// Events since the last evaluation, and the runs named by Engine::runs_with_events() and by these events.
struct RunEvents {
  std::vector<RunEvent> happened;
  std::map<std::string, RunAfterEvent> runs;
};

/// Free space of a watched folder's file system.
struct FreeSpace {
  std::string folder;
  double bytes = 0;
};

/// The owner of a run's alerts: the token that began it, or the run itself if no token is known.
std::string owner_of(const std::string& run, const std::string& begun_by);

/// Evaluates alert rules over the records of running runs. Uses monotonic time, so setting the wall clock has no
/// effect. Silence is measured from the last record or heartbeat that this process received. Not thread-safe.
///
/// A rule has at most max_open alerts open per owner. The owner of a run is the token that began it, or the run itself
/// if no token is known. Further alerts are held back until some are cleared; those of events are not raised later. One
/// alert without a run gives their number; its subject is the owner.
///
/// An event raises its alert once. The alert is over when the run trains again or has ended (restarted), when it no
/// longer counts as failed (failed), at once (finished), and when the run is archived or deleted.
class Engine {
 public:
  using Time = SteadyClock::time_point;
  static constexpr std::size_t max_open = 50;

  void set_rules(std::vector<Rule> rules) { rules_ = std::move(rules); }
  /// Registers an alert that an earlier process left open, so that it is not raised twice and can be cleared.
  void adopt(const std::string& rule, const std::string& run, const std::string& subject);

  /// Takes in a stored record. Cheap: updates a few sums per rank.
  void observe(const RecordHeader& header, const RecordBody& body, Time now);
  /// Takes in a heartbeat: a sign of life without a record.
  void heard(const std::string& run, std::int64_t attempt, std::int64_t rank, const std::string& host, Time now);
  /// The runs with open alerts about events.
  std::set<std::string> runs_with_events() const;
  /// Evaluates all rules and returns the changes. Forgets runs that are not in `running` and clears their alerts.
  std::vector<Change> judge(const std::vector<RunningRun>& running, const std::vector<FreeSpace>& disks, Time now,
                            const RunEvents& events = {});

 private:
  struct Rank {
    std::string host;
    Time heard;
    std::int64_t rewinds = 0;
  };
  /// The weights after an update, as the first rank reported them.
  struct Weights {
    std::int64_t rank = 0;
    std::string host, digest;
    bool compared = false, differ = false;
  };
  struct Run {
    std::string owner;  // alerts are limited per owner: "token ID" or "run ID"
    std::int64_t attempt = 0;
    bool emulated = false;
    std::map<std::int64_t, Rank> ranks;
    bool beats = false;                             // it sends heartbeats, also during long evaluations
    Time updated;                                   // when the newest update was received
    std::chrono::duration<double> longest_wait{0};  // between updates, without stalls
    std::int64_t update = 0, updates = 0;
    std::int64_t rewinds = 0;              // max over ranks; steps from ranks with fewer rewinds are outdated
    std::int64_t stored_update = 0;        // newest update in the store, also from before this process
    std::int64_t losses = 0, rates = 0;    // number of finite values in the means below
    std::deque<std::int64_t> bad_updates;  // non-finite updates, newest last
    std::string bad_message;
    std::string bad_evaluation;                // message about the newest evaluation if its loss is not finite
    std::map<std::int64_t, Weights> weights;   // by update; the newest updates with a digest
    std::int64_t compared = 0, differing = 0;  // updates with digests from two ranks, and those with a difference
    std::string differ_message;
    double fast_rate = 0, usual_rate = 0;  // target tokens per second
    double fast_loss = 0, usual_loss = 0;
    bool rate_open = false, loss_open = false;  // an alert is open: the usual value is frozen
  };
  /// The state of an alert. Condition `bad` raises it, `well` clears it; in between nothing changes.
  struct State {
    bool open = false;
    bool changing = false;  // bad while closed, or well while open
    Time since;
  };
  struct Condition {
    bool bad = false, well = true;
    std::string message;
    double value = 0;
  };
  using Key = std::tuple<std::string, std::string, std::string>;  // rule, run, subject
  struct Flood {
    std::size_t open = 0, held_back = 0;  // alerts
  };

  /// The run, in which the sign of life is noted. Null if it comes late, from an older attempt.
  Run* note_life(const std::string& run, std::int64_t attempt, std::int64_t rank, const std::string& host, Time now);
  static void observe_rewind(Run& run, Rank& rank, std::int64_t update, Time now);
  static void observe_step(Run& run, const StepRecord& step, Time now);
  static void observe_eval(Run& run, const EvalRecord& eval);
  static void compare_weights(Run& run, const RecordHeader& header, const StepRecord& step);
  void judge_run(const Rule& rule, const std::string& id, Run& run, Time now, std::vector<Change>& changes);
  void judge_ranks(const Rule& rule, const std::string& id, const Run& run, Time now, std::vector<Change>& changes);
  Condition condition_of(const Rule& rule, const std::string& id, const Run& run, Time now) const;
  static Condition silence_of(const Rule& rule, const Run& run, Time now);
  bool counts_as_silent(const std::string& id, const Run& run, Time now) const;
  void judge_events(const Rule& rule, const RunEvents& events, Time now, std::vector<Change>& changes);
  void raise_events(const Rule& rule, const RunEvents& events, Time now, std::vector<Change>& changes);
  void settle(const Rule& rule, const std::string& run, const std::string& subject, const Condition& condition,
              Time now, std::vector<Change>& changes);
  void find_owners(const RunEvents& events);
  void count_open();
  /// Whether the rule may raise one more alert for the run. Counts it as open or as held back.
  bool may_raise(const Rule& rule, const std::string& run);
  void judge_floods(Time now, std::vector<Change>& changes);
  /// Clears alerts of rules, runs and folders that are gone.
  void close_orphans(const std::vector<FreeSpace>& disks, const RunEvents& events, std::vector<Change>& changes);

  std::vector<Rule> rules_;
  std::map<std::string, Run> runs_;
  std::map<Key, State> states_;
  std::map<std::string, std::string> owners_;                               // of runs with alerts; valid within judge()
  std::map<std::pair<std::string, std::string>, Flood> floods_;             // by (rule, owner); valid within judge()
  std::map<std::pair<std::string, std::string>, std::size_t> held_events_;  // held back since the owner had room
};

}  // namespace babelring::alerts

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/records.h"
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

/// Free space of a watched folder's file system.
struct FreeSpace {
  std::string folder;
  double bytes = 0;
};

/// Evaluates alert rules over the records of running runs. Uses monotonic time, so setting the wall clock has no
/// effect. Silence is measured from the last record or heartbeat that this process received. Not thread-safe.
///
/// A rule has at most max_open alerts open per owner. The owner of a run is the token that began it, or the run itself
/// if no token is known. Further alerts are held back until some are cleared. One alert without a run gives their
/// number; its subject is the owner.
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
  /// Evaluates all rules and returns the changes. Forgets runs that are not in `running` and clears their alerts.
  std::vector<Change> judge(const std::vector<RunningRun>& running, const std::vector<FreeSpace>& disks, Time now);

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

  static void observe_rewind(Run& run, Rank& rank, std::int64_t update, Time now);
  static void observe_step(Run& run, const StepRecord& step, Time now);
  static void observe_eval(Run& run, const EvalRecord& eval);
  static void compare_weights(Run& run, const RecordHeader& header, const StepRecord& step);
  void judge_run(const Rule& rule, const std::string& id, Run& run, Time now, std::vector<Change>& changes);
  void judge_ranks(const Rule& rule, const std::string& id, const Run& run, Time now, std::vector<Change>& changes);
  Condition condition_of(const Rule& rule, const Run& run, Time now) const;
  void settle(const Rule& rule, const std::string& run, const std::string& subject, const Condition& condition,
              Time now, std::vector<Change>& changes);
  void count_open();
  /// Whether the rule may raise one more alert for the run. Counts it as open or as held back.
  bool may_raise(const Rule& rule, const std::string& run);
  void judge_floods(Time now, std::vector<Change>& changes);
  /// Clears alerts of rules, runs and folders that are gone.
  void close_orphans(const std::vector<FreeSpace>& disks, std::vector<Change>& changes);

  std::vector<Rule> rules_;
  std::map<std::string, Run> runs_;
  std::map<Key, State> states_;
  std::map<std::pair<std::string, std::string>, Flood> floods_;  // by (rule, owner); valid within judge()
};

}  // namespace babelring::alerts

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

/// An alert is raised, or cleared again. (rule, run, subject) names what is wrong; at most one alert a name is open.
struct Change {
  bool raised = true;
  std::string rule, run, subject;  // run empty: the server's own; subject: the rank or folder meant, or empty
  Kind kind = Kind::nan;
  std::string message;  // for people: what was found, what was usual or wanted
  double value = 0, threshold = 0;
};

/// A run that trains at the moment.
struct RunningRun {
  std::string run;
  std::int64_t attempt = 1;
  std::int64_t update = 0;  // the newest of that attempt that is stored
  std::string begun_by;     // the token that reported it first, if it is known
};

struct FreeSpace {
  std::string folder;
  double bytes = 0;
};

/// Follows runs and tells what to raise and to clear. Times are monotonic: a clock that is set changes nothing, and
/// silence is counted from when this process heard something. Not thread-safe.
///
/// Of the runs that one token has begun, and of the ranks of a run of which no token is known, a rule raises at most
/// max_open alerts at a time. Further ones are held back until some are cleared, and one alert without a run says how
/// many there are; its subject is the token or the run.
class Engine {
 public:
  using Time = SteadyClock::time_point;
  static constexpr std::size_t max_open = 50;

  void set_rules(std::vector<Rule> rules) { rules_ = std::move(rules); }
  /// An alert of an earlier process that is still open, so that it is not raised twice and can be cleared.
  void adopt(const std::string& rule, const std::string& run, const std::string& subject);

  /// A record was stored. Cheap: a few sums a rank.
  void observe(const RecordHeader& header, const RecordBody& body, Time now);
  /// A rank gave a sign of life without a record.
  void heard(const std::string& run, std::int64_t attempt, std::int64_t rank, const std::string& host, Time now);
  /// Judges everything. Runs that are not `running` any more are forgotten and their alerts cleared.
  std::vector<Change> judge(const std::vector<RunningRun>& running, const std::vector<FreeSpace>& disks, Time now);

 private:
  struct Rank {
    std::string host;
    Time heard;
    std::int64_t rewinds = 0;
  };
  /// The weights after an update, as the rank that told of them first has them.
  struct Weights {
    std::int64_t rank = 0;
    std::string host, digest;
    bool compared = false, differ = false;
  };
  struct Run {
    std::string owner;  // whose alerts are counted together: "token ID" or "run ID"
    std::int64_t attempt = 0;
    std::map<std::int64_t, Rank> ranks;
    Time updated;                                   // when its newest update was heard of
    std::chrono::duration<double> longest_wait{0};  // between updates, while all was well
    std::int64_t update = 0, updates = 0;
    std::int64_t rewinds = 0;        // of the rank that told of most: what a rank behind it says of updates is outdated
    std::int64_t stored_update = 0;  // by an earlier process, too
    std::int64_t losses = 0, rates = 0;    // finite ones, of which the means below are made
    std::deque<std::int64_t> bad_updates;  // non-finite ones, newest last
    std::string bad_what;
    std::string bad_evaluation;                // the newest, if its loss is not finite
    std::map<std::int64_t, Weights> weights;   // by update, of the newest updates with a digest
    std::int64_t compared = 0, differing = 0;  // updates whose weights two ranks told, and that differed
    std::string differ_what;
    double fast_rate = 0, usual_rate = 0;  // target tokens a second
    double fast_loss = 0, usual_loss = 0;
    bool rate_open = false, loss_open = false;  // an alert is: what is usual stands still meanwhile
  };
  /// How a condition stands: `bad` raises, `well` clears; between them nothing changes.
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
  /// Whether one more alert of the rule may be raised; counts it if so, and else as held back.
  bool may_raise(const Rule& rule, const std::string& run);
  void judge_floods(Time now, std::vector<Change>& changes);
  /// Clears what is open of rules, runs and folders that are gone.
  void close_orphans(const std::vector<FreeSpace>& disks, std::vector<Change>& changes);

  std::vector<Rule> rules_;
  std::map<std::string, Run> runs_;
  std::map<Key, State> states_;
  std::map<std::pair<std::string, std::string>, Flood> floods_;  // by rule and owner, while judging
};

}  // namespace babelring::alerts

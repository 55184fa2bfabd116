#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// A run's health at a glance: pure functions over plain structs.

namespace babelring::verdict {

/// By rising urgency. `unknown`: not enough is known yet, or there is nothing to judge.
enum class Level { good, unknown, warning, bad };
std::string_view to_string(Level level);

/// The topic of a statement about a run, in display order.
enum class Topic { state, learning, speed, hosts, alerts };
std::string_view to_string(Topic topic);

/// One statement about a run.
struct HealthPart {
  Topic topic = Topic::state;
  Level level = Level::unknown;
  std::string text;
  std::string action;  // recommended action; empty: none
};

struct Health {
  Level level = Level::unknown;  // level of the worst part; unknown if neither learning nor speed is known
  std::string headline;          // text of the first part of that level
  std::string action;            // recommended action of that part; empty: none
  std::vector<HealthPart> parts;
};

/// Sorts the parts by topic and takes level and headline from the worst one. `parts` must not be empty.
Health health_of(std::vector<HealthPart> parts);

/// Restarts after a fault since the run was started or resumed.
struct Restarts {
  std::int64_t count = 0, max = 0;
  std::string last_time, last_cause;  // of the newest; empty: unknown
  bool by_hand = false;               // nobody but the user starts attempts: there is no max
};

/// A run's state as stored.
struct RunCondition {
  std::string state;         // queued, running, failed, …
  std::string detail;        // reason for the state, from the last lifecycle record
  std::string last_error;    // newest log line of level error; empty: none
  std::int64_t update = 0;   // newest reported update
  std::string silent_since;  // time of the last record if a running run stopped reporting; empty: it reports
  bool resumable = false;    // the server started the run, so it can resume it
  Restarts restarts;
};

/// The part of the health about the run's state.
HealthPart judge_state(const RunCondition& condition);

/// An open alert about the run. Alerts of kind ranks_differ are included even after the end of the run cleared them.
struct RunAlert {
  std::string kind, message;
  bool acknowledged = false;
};

/// The part of the health about alerts: a count, and the message of the most severe one.
HealthPart judge_alerts(const std::vector<RunAlert>& alerts);

/// Number of newest updates that learning is judged by.
inline constexpr std::int64_t learning_window = 128;
/// Number of newest evaluations that learning is judged by.
inline constexpr std::int64_t learning_evaluations = 100;

/// The outcome of one update.
struct TrainedUpdate {
  std::int64_t update = 0;
  double loss = 0;       // may be NaN or infinite
  bool skipped = false;  // its gradient was not finite
};

/// A validation during training, on one validation set.
struct ValidationResult {
  std::int64_t update = 0;
  double loss = 0;       // NaN if it was not finite
  double sacrebleu = 0;  // NaN if nothing was translated
};

/// The newest updates and evaluations, each by rising update.
struct Course {
  std::vector<TrainedUpdate> updates;
  std::vector<ValidationResult> evaluations;
};

/// Whether the model improves. Finds non-finite losses, divergence, overfitting and plateaus, in this order.
HealthPart judge_learning(const Course& course);

}  // namespace babelring::verdict

#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "cli/runs/screen.h"

namespace babelring {

/// A run as a person watches it: on a terminal a bar on the last line, elsewhere a line now and then; above it a line
/// for each change of state and health, validation and checkpoint.
class RunView {
 public:
  /// `between_lines`: of progress, where there is no bar.
  RunView(const Screen& screen, std::chrono::milliseconds between_lines) : screen_(screen), between_(between_lines) {}
  ~RunView() { clear(); }
  RunView(const RunView&) = delete;
  RunView& operator=(const RunView&) = delete;

  /// What GET /runs/{run} or a `state` event says.
  void run(const json::object& item);
  /// The data of a `metrics` event; only rank 0's counts.
  void metrics(const json::object& data);
  void eval(const json::object& item);
  void checkpoint(const json::object& item);
  void notice(const std::string& text, Colour colour = Colour::grey);

  const std::string& state() const { return state_; }
  bool ended() const;
  /// "run toy (r_…) failed: …": how it ended.
  std::string outcome() const;
  bool succeeded() const { return state_ == "succeeded" || state_ == "stopped"; }

 private:
  void show();
  void clear();
  std::string progress_text() const;
  void note_health(const json::object& item);
  std::optional<double> fraction() const;
  std::optional<double> seconds_left() const;

  Screen screen_;
  const std::chrono::milliseconds between_;
  std::string id_, name_, state_, detail_, headline_;
  double update_ = 0, max_updates_ = 0, attempt_ = 0;
  std::optional<double> epoch_, loss_, step_ms_, tokens_per_second_, eta_seconds_, fraction_;
  bool at_latest_ = false;  // early stopping may end it sooner
  bool drawn_ = false;
  std::optional<SteadyClock::time_point> last_line_;
};

/// Whether a run stays in this state unless somebody resumes it.
bool is_end_state(std::string_view state);

}  // namespace babelring

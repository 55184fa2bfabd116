#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "cli/runs/screen.h"
#include "client/server_access.h"

namespace babelring {

/// Prints the progress of a run: a bar on the last line of a terminal, otherwise a progress line at intervals. Also
/// prints a line for each validation, checkpoint and change of state or health.
class RunView {
 public:
  /// `between_lines`: interval of progress lines without a terminal.
  RunView(const Screen& screen, std::chrono::milliseconds between_lines) : screen_(screen), between_(between_lines) {}
  ~RunView() { clear(); }
  RunView(const RunView&) = delete;
  RunView& operator=(const RunView&) = delete;

  /// Updates from GET /runs/{run} or a `state` event.
  void run(const json::object& item);
  /// Updates from a `metrics` event. Ignores ranks other than 0.
  void metrics(const json::object& data);
  void eval(const json::object& item);
  void checkpoint(const json::object& item);
  void notice(const std::string& text, Colour colour = Colour::grey);

  const std::string& state() const { return state_; }
  bool ended() const;
  /// One line about the end of the run: "run toy (r_…) failed: …".
  std::string outcome() const;
  bool succeeded() const { return state_ == "succeeded" || state_ == "stopped"; }

 private:
  void show();
  void clear();
  std::string progress_text() const;
  void report_health(const json::object& item);
  std::optional<double> fraction() const;
  std::optional<double> seconds_left() const;

  Screen screen_;
  const std::chrono::milliseconds between_;
  std::string id_, name_, state_, detail_, headline_;
  std::string restarts_;  // " after 2 of 3 restarts", or empty
  double update_ = 0, max_updates_ = 0, attempt_ = 0;
  std::optional<double> epoch_, loss_, step_ms_, tokens_per_second_, eta_seconds_, fraction_;
  bool at_latest_ = false;  // early stopping may end the run sooner
  bool drawn_ = false;
  std::optional<SteadyClock::time_point> last_line_;
};

/// True for a state that a run leaves only if it is resumed.
bool is_end_state(std::string_view state);

/// `nmt run watch`: prints progress until the run ends or Ctrl-C, which does not affect the run. With `as_json`, prints
/// a line per event instead: {"event":"metrics","data":{…}}. Throws Failure if the run ends other than by success or a
/// stop.
void watch_run(const ServerAccess& access, const std::string& run_id, bool as_json, const Screen& screen);

}  // namespace babelring

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "insight/steps.h"
#include "insight/verdict/savings.h"

namespace babelring::verdict {

/// The limit of a run's speed.
enum class Kind {
  unknown,
  healthy,
  compute_bound,
  network_bound,
  data_bound,
  straggler_bound,
  checkpoint_bound,
  evaluation_bound,
  host_contended,  // other programs take the host's processors
};
std::string_view to_string(Kind kind);

/// The time of one update by phase, in ms. Each phase is a median over the window; pauses are spread over the updates
/// between them. The phases add up to total_ms().
struct Findings {
  StepTimes times = {};  // `other`: unmeasured time within the step, and time between steps
  double straggler_ms = 0;
  PauseCost evaluation, checkpoint;

  std::size_t updates = 0, skipped = 0;
  std::size_t late_rank = 0;    // index into Input::ranks of the rank that is last most often
  double late_fraction = 0;     // fraction of the window's updates in which that rank is last
  bool late_with_data = false;  // that rank is usually late because it waits for its batches
  std::string late_host;        // host whose ranks together are last most often
  std::size_t late_host_ranks = 0, late_host_updates = 0;  // its ranks; updates in which one of them is last
  double late_host_fraction = 0;                           // late_host_updates as a fraction of the window
  bool host_is_late = false;                               // the host as a whole is late, not one of its ranks
  const HostLoad* contended = nullptr;   // host whose processors other programs take; points into Input::hosts
  double busy_fraction = unknown_value;  // median over ranks and updates
  Traffic traffic;

  double total_ms() const {
    return times.sum_of_parts() + straggler_ms + evaluation.ms_per_update + checkpoint.ms_per_update;
  }
  double fraction(double ms) const { return total_ms() > 0 ? ms / total_ms() : 0; }
  /// Whether one of `ranks` ranks is late far more often than chance allows.
  bool one_is_late(std::size_t ranks) const;
  /// Whether at least 10 % of the updates were skipped, so that speed is secondary.
  bool skips_many_updates() const { return 10 * skipped >= updates && skipped > 0; }
  /// The phase of an update that a verdict of this kind rests on, in ms. 0 for Kind::unknown.
  double ms_of(Kind kind) const;
};

/// Measures where the time of the updates in `window` goes. `window` must not be empty. The result points into `input`.
Findings find(const Input& input, const std::vector<UpdateSplit>& window);

/// A loss of at least this fraction of an update's time is the run's bottleneck.
inline constexpr double bound_fraction = 0.15;
/// Waiting for other ranks is told beside another bottleneck from this fraction on: a third of what would be one.
inline constexpr double notable_fraction = bound_fraction / 3;
/// A run is healthy if compute takes at least `healthy_fraction` of its time, its threads are busy for at least
/// `healthy_busy` of the time, and the optimizer takes at most `healthy_optimizer` of it.
inline constexpr double healthy_fraction = 0.85, healthy_busy = 0.7, healthy_optimizer = 0.25;
/// Below this busy fraction, the run's threads get too little processor time if other programs compete for it.
inline constexpr double contended_busy = 0.6;

/// "load 12.7 on 2 processors: other programs take most of them". Names the host if `hosts` is more than 1.
std::string load_of(const HostLoad& host, std::size_t hosts);
/// The advice for a contended host.
std::string stop_others_on(const HostLoad& host);

/// The sentence and the advice for a verdict of this kind, with numbers from `findings`. Not for Kind::unknown.
std::string sentence_of(Kind kind, const Input& input, const Findings& findings);
std::string advice_of(Kind kind, const Input& input, const Findings& findings);

}  // namespace babelring::verdict

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/verdict/savings.h"
#include "server/verdict/window.h"

namespace babelring::verdict {

/// What an update's time goes into, in ms: medians over the window, pauses spread over updates. They add up to
/// total_ms().
struct Findings {
  double data_ms = 0, forward_ms = 0, backward_ms = 0, optimizer_ms = 0, network_ms = 0, straggler_ms = 0;
  double other_ms = 0;  // the step's own rest, and what passes between steps
  PauseCost evaluation, checkpoint;

  std::size_t updates = 0, skipped = 0;
  std::size_t late_rank = 0;    // place in Input::ranks of the rank that is last most often
  double late_share = 0;        // of the window's updates in which it is
  bool late_with_data = false;  // its batches come late, rather than its results
  std::string late_host;        // host of the rank that is last, whichever of its ranks that is, most often
  std::size_t late_host_ranks = 0, late_host_updates = 0;
  double late_host_share = 0;           // of the window's updates
  bool host_is_late = false;            // that host in particular is, and no single rank of it
  const HostLoad* contended = nullptr;  // other programs have most of its processors; in Input::hosts
  double busy_fraction = not_known;     // median of ranks and updates
  Traffic traffic;

  double compute_ms() const { return forward_ms + backward_ms + optimizer_ms; }
  double total_ms() const {
    return data_ms + compute_ms() + network_ms + straggler_ms + other_ms + evaluation.ms_per_update +
           checkpoint.ms_per_update;
  }
  double share(double ms) const { return total_ms() > 0 ? ms / total_ms() : 0; }
  /// One rank in particular is late, not all in turns.
  bool one_is_late(std::size_t ranks) const;
  /// Many updates are skipped: fast or not, they are of no use.
  bool learns_little() const { return 10 * skipped >= updates && skipped > 0; }
  /// Time of an update that this kind of verdict is about. 0 for unknown.
  double ms_of(Kind kind) const;
};

Findings find(const Input& input, const std::vector<UpdateSplit>& window);

/// Losses from this share of an update's time on bind a run.
inline constexpr double bound_share = 0.15;
/// A run that computes for this share of its time is healthy, if its threads are busy and updates are not too small.
inline constexpr double healthy_share = 0.85, healthy_busy = 0.7, healthy_optimizer = 0.25;
/// Threads that are busy for less of their time get too few of the processors, where other programs want them.
inline constexpr double contended_busy = 0.6;

/// "load 12.7 on 2 processors: other programs take most of them"; names the host where there are several.
std::string load_of(const HostLoad& host, std::size_t hosts);
std::string stop_others_on(const HostLoad& host);

/// The one line and the advice of a kind, with their numbers. Not for `unknown`.
std::string sentence_of(Kind kind, const Input& input, const Findings& findings);
std::string advice_of(Kind kind, const Input& input, const Findings& findings);

}  // namespace babelring::verdict

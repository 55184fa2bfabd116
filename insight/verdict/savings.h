#pragma once

#include <optional>

#include "insight/steps.h"
#include "insight/what_if/what_if.h"

namespace babelring::verdict {

/// Network use of a typical step.
struct Traffic {
  double exposed_ms = 0;        // communication that even the slowest rank waits for
  double communication_ms = 0;  // time with collectives in progress, overlapped or not
  double bytes_per_second = 0;  // send rate of the busiest host while collectives are in progress; 0: unknown
  std::int64_t hosts = 1;
  double collectives = 1;  // all-reduces per step, one per bucket
  /// The fraction of communication_ms that message latency explains, 0 to 1.
  double latency_fraction = 0;
  /// bytes_per_second divided by the link's rate, or by 1 Gbit/s if no host reports its link's rate. NaN if the
  /// traffic is unknown.
  double link_share = unknown_value;
  bool link_known = false;

  /// Whether latency, not bandwidth, limits the collectives: they wait while the link is mostly idle.
  bool waits_for_latency() const { return hosts > 1 && link_share < (link_known ? 0.35 : 0.25); }
};

/// Estimates the network use of a step with these two times.
Traffic traffic_of(const Input& input, double exposed_ms, double communication_ms);

/// The time that a change saves, in ms for the target tokens of today's update, as what_if() predicts it. Nothing if
/// the model does not describe the run, the change is impossible, or it saves nothing.
std::optional<double> saving_ms(const Input& input, const insight::WhatIfChange& change);

}  // namespace babelring::verdict

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "insight/verdict/verdict.h"

namespace babelring::testing {

/// One rank's phase times in every update of a simulated run, in ms.
struct RankTimes {
  std::string host = "hostA";
  double data_ms = 1, forward_ms = 100, backward_ms = 200, optimizer_ms = 20, other_ms = 1;
  double busy_fraction = 0.9, network_tx_bytes = 0;
  double own_ms() const { return data_ms + forward_ms + backward_ms + optimizer_ms + other_ms; }
};

/// A simulated run. In every update all ranks wait in the all-reduce for the slowest one, then `network_ms` for the
/// bytes. `jitter` is the relative standard deviation of each rank's compute times.
struct Stream {
  std::vector<RankTimes> ranks;
  double network_ms = 10, communication_ms = 30, jitter = 0.02;
  std::int64_t first_update = 1, updates = 100;
  double between_ms = 0.3;
  std::vector<verdict::Pause> pauses;  // a gap that is not given follows from `seconds`
  verdict::Facts facts;

  verdict::Input input(unsigned seed = 1) const {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(1, jitter);
    verdict::Input made;
    made.facts = facts;
    made.facts.first_update = first_update;
    made.facts.world_size = std::max<std::int64_t>(facts.world_size, static_cast<std::int64_t>(ranks.size()));
    made.pauses = pauses;
    for (auto& pause : made.pauses) {
      if (!(pause.gap_ms >= 0)) pause.gap_ms = pause.seconds * 1000 + between_ms;
    }
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      made.ranks.push_back({static_cast<std::int64_t>(i), ranks[i].host, {}});
    }
    double clock_ms = 1'795'233'600'000.0;
    for (std::int64_t update = first_update; update < first_update + updates; ++update) {
      add_update(made, update, clock_ms, [&] { return std::max(0.2, noise(random)); });
    }
    return made;
  }

 private:
  template <class Noise>
  void add_update(verdict::Input& made, std::int64_t update, double& clock_ms, Noise noise) const {
    std::vector<RankTimes> now = ranks;
    double slowest = 0;
    for (RankTimes& rank : now) {
      rank.forward_ms *= noise();
      rank.backward_ms *= noise();
      slowest = std::max(slowest, rank.own_ms());
    }
    clock_ms += slowest + network_ms + between_ms;
    for (std::size_t i = 0; i < now.size(); ++i) {
      const RankTimes& rank = now[i];
      verdict::Step step;
      step.update = update;
      step.time_ms = static_cast<std::int64_t>(clock_ms);
      step.times.data = rank.data_ms;
      step.times.forward = rank.forward_ms;
      step.times.backward = rank.backward_ms;
      step.times.optimizer = rank.optimizer_ms;
      step.times.other = rank.other_ms;
      step.times.exposed_communication = ranks.size() > 1 ? slowest - rank.own_ms() + network_ms : 0;
      step.times.step = rank.own_ms() + step.times.exposed_communication;
      step.times.communication = ranks.size() > 1 ? communication_ms : 0;
      step.network_tx_bytes = rank.network_tx_bytes;
      step.busy_fraction = rank.busy_fraction;
      made.ranks[i].steps.push_back(step);
    }
    for (const auto& pause : pauses) {
      if (pause.update == update) clock_ms += pause.gap_ms >= 0 ? pause.gap_ms : pause.seconds * 1000;
    }
  }
};

/// The value of a verdict's evidence with this key; unknown_value if there is none.
inline double value_of(const verdict::Verdict& verdict, const std::string& key) {
  for (const verdict::Evidence& evidence : verdict.evidence) {
    if (evidence.key == key) return evidence.value;
  }
  return verdict::unknown_value;
}

/// The shares of an update's phases add up to 1.
inline void expect_whole(const verdict::Verdict& verdict) {
  double sum = 0;
  for (const verdict::Evidence& evidence : verdict.evidence) {
    if (evidence.key != "update_ms" && std::isfinite(evidence.fraction)) sum += evidence.fraction;
  }
  EXPECT_NEAR(sum, 1, 1e-9);
}

/// A pause of this length after every `updates` updates until `last`.
inline std::vector<verdict::Pause> every(verdict::Pause::Kind kind, std::int64_t updates, std::int64_t last,
                                         double seconds) {
  std::vector<verdict::Pause> pauses;
  for (std::int64_t update = updates; update <= last; update += updates) pauses.push_back({kind, update, seconds});
  return pauses;
}

}  // namespace babelring::testing

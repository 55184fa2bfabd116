#pragma once

#include <optional>

#include "lab/timeline/rank_events.h"

namespace babelring {

/// `ms` on rank 0's clock, whose time 0 is the origin of made traces.
inline SteadyClock::time_point made_time(double ms) {
  return SteadyClock::time_point(
      std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double, std::milli>(ms)));
}

/// Update 20 of a rank, from 0 to 100 ms, by a clock that is `behind_ms` behind rank 0's: 5 ms waiting for data, 70 ms
/// of forward and backward with two ops and two all-reduces in progress at a time, 10 ms of communication, 10 ms of
/// optimizer. `late_ms`: how much later than at 30 and 45 ms it asks for its all-reduces.
inline RankTimeline made_timeline(int rank, double behind_ms, double late_ms) {
  const auto at = [behind_ms](double ms) { return made_time(ms - behind_ms); };
  RankTimeline timeline{.rank = rank, .host = rank == 0 ? "hostA" : "hostB"};
  StepRecord record;
  record.update = 20;
  record.times.step = 100;
  record.times.exposed_communication = 10;
  record.memory_bytes = {{"weights", 4000}, {"peak", 9000}};
  record.power_w = 250;
  timeline.updates.push_back({at(0), at(100), record, 1500});
  timeline.spans = {{"main", "phase", "other", at(-50), at(6)},         {"main", "data", "data", at(0), at(5)},
                    {"main", "phase", "forward", at(6), at(26)},        {"main", "phase", "backward", at(26), at(76)},
                    {"main", "phase", "communication", at(76), at(86)}, {"main", "phase", "optimizer", at(86), at(96)},
                    {"data", "batch", "batch", at(-5), at(20)}};
  timeline.shapes = {{"x", Shape{64, 512}}, {"weight", Shape{512, 512}}, {"x", Shape{64}}, {"x", Shape{8}}};
  timeline.ops = {{"linear_forward", "encoder.1.attention.qkv", {.flops = 33.5e6, .bytes = 1e6}, at(7), at(17), 0, 2},
                  {"fill", "", {.flops = 0, .bytes = 256}, at(27), at(29), 2, 2}};
  timeline.ranges = {{"encoder.0", at(7), at(18)}, {"forward", at(6), at(26)}};
  timeline.collectives = {
      {"all-reduce of 1.0 MB", 7, 1000, at(30 + late_ms), at(31 + late_ms), at(60)},
      {"all-reduce of 2.0 MB", 8, 2000, at(45 + late_ms), at(46 + late_ms), at(81)},
      {"sum of 4 doubles", 9, 0, at(90), at(91), at(92)},
  };
  return timeline;
}

/// Both measurements of a clock that is `behind_ms` behind rank 0's.
inline ClockMap made_clock(double behind_ms, std::chrono::microseconds error = std::chrono::microseconds(20)) {
  const auto ahead = made_time(behind_ms).time_since_epoch();
  return {{.at = made_time(-1 - behind_ms), .ahead = ahead, .error = error},
          {.at = made_time(101 - behind_ms), .ahead = ahead, .error = error / 2}};
}

}  // namespace babelring

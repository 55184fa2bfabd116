#include "nmt/train/setup/lab_config.h"

#include <fmt/format.h>

#include <cmath>

#include "nmt/train/setup/requests.h"

namespace babelring {

namespace {

void require_updates(const char* key, const Interval& interval) {
  if (interval.unit() == Interval::Unit::updates && interval.value() == std::floor(interval.value())) return;
  throw ConfigError(key, fmt::format("{}: expected a number of updates (1000u), found '{}'", key, interval.text()));
}

}  // namespace

void ProbeConfig::bind(OptionBinder& b) {
  b.parsed("at", at, "first update (1000u) whose tensors every rank records in RUN/lab, for nmt probe; 0u: none");
  b.integer("updates", updates, 1, 1000, "number of updates that are recorded; each takes several times as long");
  b.text("tensors", tensors,
         "store whole tensors too: comma-separated layers or LAYER/OP/MEMBER with * and ?, such as decoder.*; empty: "
         "none");
}

void ProbeConfig::check() const {
  require_updates("lab.probe.at", at);
}

void ParameterTraceConfig::bind(OptionBinder& b) {
  b.parsed("window", window,
           "count which rows of the parameters the optimizer changes, and write a summary to RUN/lab every N updates "
           "(1000u); 0u: off");
}

void ParameterTraceConfig::check() const {
  require_updates("lab.parameters.window", window);
}

void TraceConfig::bind(OptionBinder& b) {
  b.parsed("start", start, "number of the first update that a timeline shows (20u)");
  b.integer("updates", updates, 0, static_cast<int>(max_traced_updates),
            "number of updates in the timeline, a file in the folder lab of the run; 0: no timeline");
  b.flag("ops", ops, "show each op; on a GPU this waits for the device after every op; false: only ranges of ops");
}

void TraceConfig::check() const {
  const auto first = static_cast<double>(first_update());
  if (start.unit() == Interval::Unit::updates && first >= 1 && first == start.value()) return;
  throw ConfigError("lab.trace.start",
                    "lab.trace.start: expected the number of an update (20u), found '" + start.text() + "'");
}

void MemoryTraceConfig::bind(OptionBinder& b) {
  b.integer("at", at, 0, std::int64_t{1} << 53,
            "update whose memory every rank traces op by op into lab/memory-update-N-rank-R.json; 0: none");
}

void ProfileConfig::bind(OptionBinder& b) {
  b.integer("start", start, 0, std::int64_t{1} << 53,
            "first update whose ops rank 0 times for lab/profile-update-N.json, from which What if and nmt emulate "
            "predict other hosts; 0: none");
  b.integer("updates", updates, 1, 10000, "number of updates that lab.profile.start times");
}

void EmulationConfig::bind(OptionBinder& b) {
  b.text("record", record,
         "times of one rank, written by `nmt emulate record`, that training.device emulated waits for; read on rank 0");
  b.flag("balloon", balloon, "training.device emulated only: lock as much memory as a real run uses (ulimit -l)");
}

void LabConfig::bind(OptionBinder& b) {
  b.integer("keep", keep, 1, 100000, "max number of files of each kind that a rank keeps in the folder lab of the run");
  b.group("probe", probe);
  b.group("trace", trace);
  b.group("parameters", parameters);
  b.group("memory", memory);
  b.group("profile", profile);
  b.group("emulated", emulated);
}

std::string LabConfig::needs_whole_state() const {
  if (parameters.window.value() > 0) return "lab.parameters.window counts the rows of one host";
  return probe.at.value() > 0 ? "lab.probe.at records whole masters and moments" : "";
}

void LabConfig::check_shares() const {
  constexpr const char* key = "communication.optimizer";
  if (const std::string reason = needs_whole_state(); !reason.empty()) {
    throw ConfigError(key, fmt::format("{}: sharded, but {}; use replicated", key, reason));
  }
}

}  // namespace babelring

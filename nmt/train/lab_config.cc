#include "nmt/train/lab_config.h"

#include <fmt/format.h>

#include <cmath>

namespace babelring {

void ProbeConfig::bind(OptionBinder& b) {
  b.parsed("at", at, "first update (1000u) whose tensors every rank records in RUN/lab, for nmt probe; 0u: none");
  b.integer("updates", updates, 1, 1000, "number of updates that are recorded; each takes several times as long");
  b.text("tensors", tensors,
         "store whole tensors too: comma-separated layers or LAYER/OP/MEMBER with * and ?, such as decoder.*; empty: "
         "none");
}

void ProbeConfig::check() const {
  if (at.unit() == Interval::Unit::updates && at.value() == std::floor(at.value())) return;
  constexpr const char* key = "lab.probe.at";
  throw ConfigError(key, fmt::format("{}: expected a number of updates (1000u), found '{}'", key, at.text()));
}

void LabConfig::bind(OptionBinder& b) {
  b.integer("keep", keep, 1, 100000, "max number of files of each kind that a rank keeps in the folder lab of the run");
  b.group("probe", probe);
}

}  // namespace babelring

#pragma once

#include <cstdint>
#include <string>

#include "base/options.h"
#include "nmt/optim/interval.h"

namespace babelring {

/// Recording of every tensor of some updates, on each rank (nmt/lab/probe).
struct ProbeConfig {
  Interval at = "0u";
  std::int64_t updates = 1;
  std::string tensors;

  void bind(OptionBinder& binder);
  /// Throws ConfigError unless `at` is a number of updates.
  void check() const;
};

/// The lab's tools, which look inside of updates: a struct with its own bind() for each tool. None of them changes the
/// bits of a run, so a resumed run may have other values.
struct LabConfig {
  int keep = 20;
  ProbeConfig probe;

  void bind(OptionBinder& binder);
  /// Throws ConfigError that names the first key that is wrong.
  void check() const { probe.check(); }
};

}  // namespace babelring

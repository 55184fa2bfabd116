#pragma once

#include <cstdint>
#include <string>

#include "base/options/options.h"
#include "nmt/optim/schedule.h"

namespace babelring {

/// Recording of every tensor of some updates, on each rank (lab/probe).
struct ProbeConfig {
  Interval at = "0u";
  std::int64_t updates = 1;
  std::string tensors;

  void bind(OptionBinder& binder);
  /// Throws ConfigError unless `at` is a number of updates.
  void check() const;
};

/// A timeline of consecutive updates of all ranks, in one file.
struct TraceConfig {
  Interval start = "20u";
  int updates = 0;
  bool ops = true;

  void bind(OptionBinder& binder);
  /// Throws ConfigError if `start` is not the number of an update.
  void check() const;
  /// The number of the first traced update.
  std::int64_t first_update() const { return static_cast<std::int64_t>(start.value()); }
};

/// Counting of the rows of the parameters that the optimizer changes (lab/parameters).
struct ParameterTraceConfig {
  Interval window = "0u";

  void bind(OptionBinder& binder);
  /// Throws ConfigError unless the window is a number of updates.
  void check() const;
};

/// The memory inside one update.
struct MemoryTraceConfig {
  std::int64_t at = 0;  // the update; 0: none

  void bind(OptionBinder& binder);
};

/// The times of rank 0's ops, from which runs are predicted (lab/record).
struct ProfileConfig {
  std::int64_t start = 0;     // first update; 0: none
  std::int64_t updates = 20;  // that are recorded

  void bind(OptionBinder& binder);
};

/// Record and memory of a run with training.device emulated (lab/emulated_rank.h).
struct EmulationConfig {
  std::string record;    // file of `nmt emulate record`
  bool balloon = false;  // lock the memory that a real run would use

  void bind(OptionBinder& binder);
};

/// The lab's tools, which look inside of updates: a struct with its own bind() for each tool. None of them changes the
/// bits of a run, so a resumed run may have other values.
struct LabConfig {
  int keep = 20;
  ProbeConfig probe;
  TraceConfig trace;
  ParameterTraceConfig parameters;
  MemoryTraceConfig memory;
  ProfileConfig profile;
  EmulationConfig emulated;

  void bind(OptionBinder& binder);
  /// Throws ConfigError that names the first key that is wrong.
  void check() const {
    probe.check();
    trace.check();
    parameters.check();
  }
  /// The reason why a tool that is on needs the optimizer's whole state on one host; empty if none does.
  std::string needs_whole_state() const;
  /// Throws ConfigError with that reason, for communication.optimizer sharded.
  void check_shares() const;
};

}  // namespace babelring

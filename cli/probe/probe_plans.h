#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lab/probe/probe_run.h"
#include "nmt/ops/backend.h"

namespace CLI {
class App;
}

namespace babelring {

/// The options of commands that run updates.
struct ProbeRunArguments {
  std::string config, checkpoint, presets, batch;
  std::vector<std::string> overrides;
  bool inference = false;
  std::int64_t updates = 1, first_update = 1;
  ProbeOptions options;
  std::string precision;  // empty: the configuration's
  DeviceChoice device = DeviceChoice::automatic;
  int threads = 0;
};

/// Adds the options that choose updates to a command: all but layers, tensors and the device.
void add_update_options(CLI::App& command, const std::shared_ptr<ProbeRunArguments>& arguments);
/// Adds all options to a command.
void add_run_options(CLI::App& command, const std::shared_ptr<ProbeRunArguments>& arguments);

struct NamedPlan {
  std::string name;  // of the preset; empty for a configuration or a checkpoint
  ProbePlan plan;
};

/// The plans of the one source that is given. Throws UsageFailure if the arguments do not fit together.
std::vector<NamedPlan> plans_of(const ProbeRunArguments& arguments);

/// The backend on which the plans run. Throws UsageFailure if it lacks a plan's precision.
std::unique_ptr<Backend> backend_for(const ProbeRunArguments& arguments, const std::vector<NamedPlan>& plans);

}  // namespace babelring

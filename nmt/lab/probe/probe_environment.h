#pragma once

#include <string>
#include <vector>

#include "nmt/lab/probe/probe_file.h"
#include "nmt/train/config.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// The processor's model name; empty if unknown.
std::string processor_model();

/// The header of a probe of `config`: digests, also of the current weights, and the environment of this process:
/// processor, kernel, backend, libraries, communication (with NCCL's version where it sums) and the variables that
/// change arithmetic. The caller sets updates, mode, corpus and threads.
ProbeHeader probe_header(const TrainConfig& config, const ModelReplica& replica);

/// A difference of two headers: "threads: 1 and 2", with "none" in the place of an empty text.
std::string header_difference(const std::string& name, const std::string& a, const std::string& b);

/// How two environments differ.
struct EnvironmentDifferences {
  std::vector<std::string> libraries;  // whose versions both probes name: "oneDNN differs: 2.6.3 / 3.7.2"
  std::vector<std::string> others;     // as header_difference() tells them, by name
};
EnvironmentDifferences compare_environments(const json::object& a, const json::object& b);

}  // namespace babelring

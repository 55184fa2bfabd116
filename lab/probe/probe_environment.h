#pragma once

#include <string>

#include "lab/probe/probe_file.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// The processor's model name; empty if unknown.
std::string processor_model();

/// The header of a probe of `config`: digests, also of the current weights, and the environment of this process:
/// processor, kernel, backend, libraries, communication (with NCCL's version where it sums) and the variables that
/// change arithmetic. The caller sets updates, mode, corpus and threads.
ProbeHeader probe_header(const TrainConfig& config, const ModelReplica& replica);

}  // namespace babelring

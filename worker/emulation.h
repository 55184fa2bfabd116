#pragma once

#include <cstdint>
#include <memory>

#include "nmt/comm/communicator.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// The backend of a run with training.device emulated: rank 0 reads the record and the other ranks get it. Rank 0 warns
/// if the record does not fit the size of the updates. Collective. Throws UsageFailure on every rank if the record
/// cannot be used.
std::unique_ptr<Backend> open_emulated_backend(const TrainConfig& config, std::int64_t vocabulary,
                                               Communicator& communicator);

/// Locks the memory of weights, gradients and moments, which ranks may share (lab.emulated.balloon). The backend locks
/// the rest. Throws UsageFailure if the limit on locked memory is too low.
void fill_balloon(const ModelReplica& replica);

}  // namespace babelring

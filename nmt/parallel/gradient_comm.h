#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nmt/comm/communicator.h"
#include "nmt/comm/nccl/functions.h"
#include "nmt/ops/backend.h"
#include "nmt/parallel/comm_config.h"

namespace babelring {

/// The communicator that reduces gradients.
struct GradientComm {
  /// Reduces gradients on GPUs; replaces the host communicator for all collectives. Null: use the host communicator.
  std::unique_ptr<Communicator> nccl;
  std::string line;  // log line with the choice and its reason; empty if there is no choice
};

/// Chooses between NCCL and host memory for gradients on GPUs, as configured by communication.all_reduce. `auto` falls
/// back to host memory if NCCL is unavailable or the wire type is int8. Tests NCCL with one all-reduce of a bucket for
/// `gradient_bytes` of gradients. Collective: every rank calls it once and gets the same result. `backend` and
/// `communicator` must outlive the result. `find` opens the library; it is called only if gradients are on a GPU.
/// Throws UsageFailure if the configuration requires NCCL and it cannot be used.
GradientComm choose_gradient_comm(const CommConfig& config, std::int64_t gradient_bytes, Backend& backend,
                                  Communicator& communicator,
                                  const std::function<Result<NcclLibrary>()>& find = find_nccl);

}  // namespace babelring

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
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

/// The GPU of one rank.
struct RankGpu {
  int device = 0;        // CUDA device number: local rank modulo number of devices
  std::string identity;  // UUID
};

/// Finds the GPU for this process, which is rank `local_rank` of its host.
Result<RankGpu> find_gpu(int local_rank);

/// Checks that every rank has a GPU that no other rank has. `identities` are the UUIDs of the ranks' GPUs and `hosts`
/// the host names, in rank order. The Error names the rank.
Status check_gpus(const std::vector<Result<json::value>>& identities, const std::vector<std::string>& hosts);

/// The result of choose_backend().
struct ChosenBackend {
  std::unique_ptr<Backend> backend;
  Result<std::string> gpu;  // UUID of the GPU, or why the CPU was chosen
};

/// Creates the backend for `device`. All ranks get the same kind: automatic chooses CUDA if every rank
/// has its own GPU, otherwise the CPU with `threads` threads. Collective: every rank calls it. Throws UsageFailure if
/// `device` is cuda and a rank lacks its own GPU, or if it is emulated, which needs a record.
ChosenBackend choose_backend(DeviceChoice device, int threads, Communicator& communicator);

}  // namespace babelring

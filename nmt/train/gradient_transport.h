#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nmt/comm/communicator.h"
#include "nmt/comm/nccl/functions.h"
#include "nmt/ops/backend.h"
#include "nmt/train/config.h"

namespace babelring {

/// Who sums the ranks' gradients.
struct GradientTransport {
  /// Between GPUs; to be used for everything then. Null: the ranks' own communicator does it, on the host.
  std::unique_ptr<Communicator> nccl;
  std::string line;  // for the log: what, and why; empty where there is nothing to choose
};

/// By the configuration's wish: NCCL for gradients on GPUs, or through the host's memory where it cannot be had. All
/// ranks get the same; every rank calls it once. Both objects must outlive the result. Throws UsageFailure if the wish
/// is NCCL and cannot be met. NCCL is tried with a bucket of `gradient_bytes`. `find` is asked only where gradients are
/// on a GPU.
GradientTransport choose_gradient_transport(const CommConfig& config, std::int64_t gradient_bytes, Backend& backend,
                                            Communicator& communicator,
                                            const std::function<NcclLibrary()>& find = find_nccl);

}  // namespace babelring

#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "nmt/comm/communicator.h"
#include "nmt/comm/nccl/functions.h"
#include "nmt/core/device_stream.h"

namespace babelring {

struct NcclOptions {
  GradientWire wire = GradientWire::f32;
  bool ring = false;                            // NCCL_ALGO=Ring, else NCCL's own choice
  std::chrono::milliseconds deadline{120'000};  // for the ranks' meeting; afterwards the other communicator's counts
  /// f32 in the device's memory, summed once when the ranks have met: connections are then made, and unreachable peers
  /// found, before training. As large as a bucket, because NCCL's choice of algorithm depends on the size.
  Tensor trial;
};

/// The communicator, or why there is none: one line, alike on all ranks.
struct OpenedNccl {
  std::unique_ptr<Communicator> communicator;
  std::string why;
};

/// All ranks of `control` (which must outlive it), with NCCL between their GPUs. All-reduces are queued on `stream`
/// behind the backend's work so far, and run while it computes; they need memory of the device, which allocate()
/// returns. Everything else is done by `control`, which also watches the all-reduces: its deadline, its questions to
/// peers and its fail_fast(). When one fails, NCCL is aborted, so that nothing hangs on the device.
///
/// Every rank calls it, whatever it finds on its host: either all use NCCL, of one version, or none does. Sets NCCL's
/// environment variables, so call it once, before any other use of NCCL. Throws CommError if a rank is lost meanwhile.
OpenedNccl open_nccl(const NcclLibrary& library, Communicator& control, std::unique_ptr<DeviceStream> stream,
                     const NcclOptions& options);

}  // namespace babelring

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
  std::chrono::milliseconds deadline{120'000};  // until all ranks have joined; later, that of `control` applies
  /// f32 in device memory, summed once after joining, so that connections are made and unreachable peers are found
  /// before training. As large as a bucket, because NCCL's choice of algorithm depends on the size.
  Tensor trial;
};

/// A communicator of all ranks of `control`, with NCCL between their GPUs; `control` must outlive it. All-reduces are
/// queued on `stream` after the backend's work so far, and run while it computes; they need memory of the device, which
/// allocate() returns. `control` does everything else. It also watches the all-reduces, with its deadline, its queries
/// of peers and its fail_fast(). When one fails, NCCL is aborted, so that nothing hangs on the device.
///
/// Every rank must call this, even without a library or a stream: either all ranks use NCCL, of one version, or none
/// does. Then all ranks get the same Error. Sets NCCL_ALGO for options.ring, so call it once, before any other use of
/// NCCL. Throws CommError if a rank is lost meanwhile, and Failure if `control` has no tracker().
Result<std::unique_ptr<Communicator>> open_nccl(const Result<NcclLibrary>& library, Communicator& control,
                                                std::unique_ptr<DeviceStream> stream, const NcclOptions& options);

}  // namespace babelring

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
  /// f32 in the device's memory: summed once, while the ranks meet, so that connections are made, and what cannot be
  /// reached is found, before training. As large as buckets, for the algorithm depends on the size.
  Tensor trial;
};

/// The communicator, or why there is none: one line, alike on all ranks.
struct OpenedNccl {
  std::unique_ptr<Communicator> communicator;
  std::string why;
};

/// All ranks of `control` (which must outlive it), with NCCL between their GPUs. All-reduces are queued on `stream`
/// behind what the backend was given, and run while it computes; they take memory of the device, which allocate()
/// gives. Everything else is `control`'s, which watches over all-reduces too: its deadline, its questions to peers and
/// its fail_fast(). When they fail, NCCL is aborted, so that nothing hangs on the device.
///
/// Every rank calls it, whatever it finds on its host: all have NCCL, of one version, or none. Sets NCCL's environment,
/// so call it before anything else does with NCCL, once. Throws CommError if a rank is lost meanwhile.
OpenedNccl open_nccl(const NcclLibrary& library, Communicator& control, std::unique_ptr<DeviceStream> stream,
                     const NcclOptions& options);

}  // namespace babelring

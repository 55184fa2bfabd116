#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// What one rank can compute with.
struct DeviceReport {
  int device = 0;        // number of its GPU: each rank of a host takes the next
  std::string identity;  // UUID of that GPU; empty if there is none to use
  std::string why;       // why there is none
};

/// The report of this process, rank `local_rank` of its host.
DeviceReport report_device(int local_rank);

/// Why the ranks cannot all have a GPU of their own, in one line that names the rank; empty if they can.
/// `reports`: of all ranks. `hosts`: where each is.
std::string why_not_cuda(const std::vector<DeviceReport>& reports, const std::vector<std::string>& hosts);

struct ChosenBackend {
  std::unique_ptr<Backend> backend;
  std::string why_cpu;  // why `auto` took the processor; empty: it did not
  std::string gpu;      // identity of the GPU; empty on the processor
};

/// `wish`: auto, cpu or cuda. All ranks compute with the same kind: auto is cuda if each has a GPU of its own, else the
/// processor with `threads`. Every rank calls it. Throws UsageFailure if the wish is cuda and cannot be met.
ChosenBackend choose_backend(const std::string& wish, int threads, Communicator& communicator);

}  // namespace babelring

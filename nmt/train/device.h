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
  std::string identity;  // that GPU's own; empty if it has none to use
  std::string why;       // then, why
};

/// This process's, as rank `local_rank` of its host.
DeviceReport report_device(int local_rank);

/// Why the ranks cannot all have a GPU of their own, in one line that names the rank; empty if they can.
/// `reports`: of all ranks. `hosts`: where each is.
std::string why_not_cuda(const std::vector<DeviceReport>& reports, const std::vector<std::string>& hosts);

/// A backend; for a wish of auto that found no GPU, why; else the GPU's identity, "" for the processor.
struct ChosenBackend {
  std::unique_ptr<Backend> backend;
  std::string why_cpu, gpu;
};

/// `wish`: auto, cpu or cuda. All ranks compute with the same kind: auto is cuda if each has a GPU of its own, else the
/// processor with `threads`. Every rank calls it. Throws UsageFailure if the wish is cuda and cannot be met.
ChosenBackend choose_backend(const std::string& wish, int threads, Communicator& communicator);

}  // namespace babelring

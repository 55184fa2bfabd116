#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// The GPU that is available to one rank.
struct DeviceReport {
  int device = 0;        // CUDA device number: local rank modulo number of devices
  std::string identity;  // UUID of the GPU; empty if none is usable
  std::string why;       // reason why no GPU is usable
};

/// Finds the GPU for this process, which is rank `local_rank` of its host.
DeviceReport report_device(int local_rank);

/// Checks that every rank has its own GPU. Returns one line with the reason and the rank otherwise; empty on success.
/// `reports` and `hosts` (host names) are indexed by rank.
std::string why_not_cuda(const std::vector<DeviceReport>& reports, const std::vector<std::string>& hosts);

enum class DeviceChoice { automatic, cpu, cuda };

/// The result of choose_backend().
struct ChosenBackend {
  std::unique_ptr<Backend> backend;
  std::string why_cpu;  // reason why `auto` chose the CPU; empty otherwise
  std::string gpu;      // UUID of the GPU; empty on the CPU
};

/// Creates the backend for `device`. All ranks get the same kind: automatic chooses CUDA if every rank
/// has its own GPU, otherwise the CPU with `threads` threads. Collective: every rank calls it. Throws UsageFailure if
/// `device` is cuda and a rank has no GPU of its own.
ChosenBackend choose_backend(DeviceChoice device, int threads, Communicator& communicator);

}  // namespace babelring

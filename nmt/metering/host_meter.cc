#include "nmt/metering/host_meter.h"

#include <sys/resource.h>

#include <vector>

#include "base/digest.h"

namespace babelring {

namespace {

double processor_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) * 1e-3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

/// Peak resident set size of this process.
std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

HostMeter::HostMeter(bool counts_network, int threads)
    : network_(counts_network), threads_(threads), processor_ms_(processor_ms()) {}

void HostMeter::fill(StepRecord& record, const ActivationArenas& arenas, const ParameterStore& store,
                     std::size_t moment_bytes) {
  const NetworkBytes bytes = network_.lap();
  record.network_rx_bytes = bytes.rx;
  record.network_tx_bytes = bytes.tx;
  record.network_link_bytes_per_second = network_.link_bytes_per_second();
  const double now = processor_ms();
  const double wall = watch_.lap_ms();
  if (threads_ > 0) {
    record.busy_fraction = wall > 0 ? (now - processor_ms_) / wall / threads_ : 0;
  } else if (record.step_ms > 0) {
    record.busy_fraction = (record.forward_ms + record.backward_ms + record.optimizer_ms) / record.step_ms;
  }
  processor_ms_ = now;

  const auto size = [](const Tensor& tensor) { return static_cast<std::int64_t>(tensor.bytes()); };
  const Tensor copies = store.compute_copies();
  record.memory_bytes["weights"] = size(store.masters()) + (copies ? size(copies) : 0);
  record.memory_bytes["gradients"] = size(store.gradients());
  record.memory_bytes["moments"] = static_cast<std::int64_t>(moment_bytes);
  record.memory_bytes["activations"] = static_cast<std::int64_t>(arenas.saved().peak_bytes());
  record.memory_bytes["scratch"] = static_cast<std::int64_t>(arenas.scratch().peak_bytes());
  if (threads_ > 0) record.memory_bytes["peak"] = peak_resident_bytes();
}

std::string digest_of(Backend& backend, ConstTensor tensor) {
  std::vector<char> host(tensor.bytes());
  backend.download(tensor, host.data());
  return Sha256().add(host.data(), host.size()).hex();
}

}  // namespace babelring

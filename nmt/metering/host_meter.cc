#include "nmt/metering/host_meter.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <map>
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

/// Resident set size of this process; 0 if the kernel does not tell.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0, resident = 0;
  return file >> pages >> resident ? resident * ::sysconf(_SC_PAGESIZE) : 0;
}

/// Every purpose of the ledger. On the host also the process's peak and its resident size.
void fill_memory(std::map<std::string, std::int64_t>& bytes, const MemoryUse& use, bool on_host) {
  for (std::size_t i = 0; i < memory_purposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    bytes[std::string(name_of(purpose))] = use.of(purpose);
  }
  if (!on_host) return;
  bytes["peak"] = peak_resident_bytes();
  const std::int64_t process = resident_bytes();
  if (process > 0) set_process_memory(bytes, process);
}

}  // namespace

HostMeter::HostMeter(bool counts_network, int threads)
    : network_(counts_network), threads_(threads), processor_ms_(processor_ms()) {}

void HostMeter::fill(StepRecord& record, const MemoryLedger& ledger) {
  const NetworkBytes bytes = network_.lap();
  record.network_rx_bytes = bytes.rx;
  record.network_tx_bytes = bytes.tx;
  record.network_link_bytes_per_second = network_.link_bytes_per_second();
  const double now = processor_ms();
  const double wall = watch_.lap_ms();
  if (threads_ > 0) {
    record.busy_fraction = wall > 0 ? (now - processor_ms_) / wall / threads_ : 0;
  } else if (record.times.step > 0) {
    record.busy_fraction = record.times.compute() / record.times.step;
  }
  processor_ms_ = now;

  fill_memory(record.memory_bytes, ledger.live(), threads_ > 0);
}

void set_process_memory(std::map<std::string, std::int64_t>& bytes, std::int64_t process) {
  std::int64_t accounted = 0;
  for (std::size_t i = 0; i < memory_purposes; ++i) {
    const auto purpose = bytes.find(std::string(name_of(static_cast<MemoryPurpose>(i))));
    if (purpose != bytes.end()) accounted += purpose->second;
  }
  bytes["process"] = process;
  bytes["unaccounted"] = process - accounted;
}

std::string digest_of(Backend& backend, ConstTensor tensor) {
  std::vector<char> host(tensor.bytes());
  backend.download(tensor, host.data());
  return Sha256().add(host.data(), host.size()).hex();
}

}  // namespace babelring

#pragma once

#include <cstdint>
#include <filesystem>

namespace babelring {

/// Statistics of this process and its host from the kernel; 0 if unavailable.
struct HostState {
  std::int64_t resident_bytes = 0;
  std::int64_t memory_bytes = 0, memory_available_bytes = 0;
  std::int64_t disk_free_bytes = 0;
  std::int64_t network_rx_bytes = 0, network_tx_bytes = 0;  // as read_network_counters(), without lo
  std::int64_t processors = 0;
  double load = 0;  // one-minute load average
};

/// disk_free_bytes is that of the file system of `folder`.
HostState read_host_state(const std::filesystem::path& folder);

}  // namespace babelring

#pragma once

#include <cstdint>
#include <filesystem>

namespace babelring {

/// This process and its host, as the kernel reports them; 0 where it does not.
struct HostState {
  std::int64_t resident_bytes = 0;
  std::int64_t memory_bytes = 0, memory_available_bytes = 0;
  std::int64_t disk_free_bytes = 0;
  std::int64_t network_rx_bytes = 0, network_tx_bytes = 0;  // of all interfaces but lo, bridges and bonds
  std::int64_t processors = 0;
  double load = 0;  // average of a minute
};

/// `folder` is on the file system whose free space is reported.
HostState read_host_state(const std::filesystem::path& folder);

}  // namespace babelring

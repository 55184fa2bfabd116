#include "worker/host_state.h"

#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "nmt/metering/network_counters.h"

namespace babelring {
namespace {

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void read_memory(HostState& state) {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::int64_t kibibytes = 0; file >> name >> kibibytes && std::getline(file, unit);) {
    if (name == "MemTotal:") state.memory_bytes = kibibytes * 1024;
    if (name == "MemAvailable:") state.memory_available_bytes = kibibytes * 1024;
    if (state.memory_bytes > 0 && state.memory_available_bytes > 0) return;
  }
}

void read_network(HostState& state) {
  for (const auto& [name, bytes] : read_network_counters()) {
    if (name == "lo") continue;
    state.network_rx_bytes += bytes.rx;
    state.network_tx_bytes += bytes.tx;
  }
}

}  // namespace

HostState read_host_state(const std::filesystem::path& folder) {
  HostState state;
  state.resident_bytes = resident_bytes();
  read_memory(state);
  read_network(state);
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (!error) state.disk_free_bytes = static_cast<std::int64_t>(space.available);
  state.processors = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  std::ifstream("/proc/loadavg") >> state.load;
  return state;
}

}  // namespace babelring

#pragma once

namespace babelring {

/// State of the fake NVML library. Its function fake_nvml() returns a pointer to it.
struct FakeNvml {
  const char* uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";
  unsigned milliwatts = 412500;
  unsigned long long memory_used = 600, nvlink_tx_kib = 5, pcie_tx = 100, pcie_rx = 200;
  unsigned pid = 0;  // of the process that holds `process_memory`; another one holds 7 bytes
  unsigned long long process_memory = 0;
  int init_status = 0, power_status = 0;
  bool lost = false;
  int inits = 0, shutdowns = 0;
};

}  // namespace babelring

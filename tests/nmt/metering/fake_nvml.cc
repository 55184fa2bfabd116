// A fake libnvidia-ml.so.1 with one GPU. Tests set its state through fake_nvml(). With BABELRING_OLD_NVML it lacks
// newer functions, such as nvmlDeviceGetFieldValues.

#include <cstring>

#include "tests/nmt/metering/fake_nvml.h"

namespace {

babelring::FakeNvml state;

/// The given status, or 15 (GPU is lost).
int answer(int status = 0) {
  return state.lost ? 15 : status;
}

struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned instances[2];
};

struct Field {
  unsigned id, scope;
  long long timestamp, latency_us;
  int type, status;
  unsigned long long value;
};

}  // namespace

extern "C" {

babelring::FakeNvml* fake_nvml() {
  return &state;
}

int nvmlInit_v2() {
  ++state.inits;
  return state.init_status;
}
int nvmlShutdown() {
  ++state.shutdowns;
  return 0;
}
const char* nvmlErrorString(int status) {
  return status == 6 ? "Not Found" : status == 9 ? "Driver Not Loaded" : "Unknown Error";
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &state;
  return std::strcmp(uuid, state.uuid) == 0 ? 0 : 6;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = static_cast<babelring::FakeNvml*>(device)->milliwatts;
  return answer(state.power_status);
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* percents) {
  percents[0] = 93, percents[1] = 41;
  return answer();
}
int nvmlDeviceGetClockInfo(void*, unsigned type, unsigned* mhz) {
  *mhz = type == 1 ? 1980 : 3201;
  return answer();
}
#ifndef BABELRING_OLD_NVML
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 700000;
  return answer();
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) {
  total_free_used[0] = 1000, total_free_used[1] = 400, total_free_used[2] = state.memory_used;
  return answer();
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  if (*count < 2) return 7;  // the list is too short
  processes[0] = {1, 7, {~0U, ~0U}};
  processes[1] = {state.pid, state.process_memory, {~0U, ~0U}};
  *count = 2;
  return answer();
}
int nvmlDeviceGetFieldValues(void*, int count, Field* fields) {
  for (int i = 0; i < count; ++i) {
    fields[i].type = 3;
    fields[i].status = 0;
    const bool all_links = fields[i].scope == ~0U;
    if (fields[i].id == 138 && all_links) {
      fields[i].value = state.nvlink_tx_kib;
    } else if (fields[i].id == 197) {
      fields[i].type = 1;  // 32-bit value; the upper bits are garbage
      fields[i].value = state.pcie_tx | 0xffff'0000'0000'0000ULL;
    } else if (fields[i].id == 198) {
      fields[i].value = state.pcie_rx;
    } else {
      fields[i].status = 3;  // not supported
    }
  }
  return answer();
}
#endif

}  // extern "C"

#include "cli/doctor/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "nmt/core/memory_info.h"
#include "nmt/core/processors.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

struct ProcessorInfo {
  std::string model, flags;
  int count = 0;
};

ProcessorInfo read_processor_info(const KernelFiles& files) {
  ProcessorInfo info;
  std::ifstream stream(files.proc / "cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(std::min(line.size(), colon + 2));
    if (line.starts_with("processor")) ++info.count;
    if (line.starts_with("model name")) info.model = value;
    if (line.starts_with("flags")) info.flags = " " + value + " ";
  }
  return info;
}

Diagnosis feature_finding(const ProcessorInfo& info, const std::string& kernels) {
  const auto has = [&](const char* flag) { return info.flags.find(fmt::format(" {} ", flag)) != std::string::npos; };
  const std::string model = info.model.empty() ? "unknown processor" : info.model;
  Diagnosis finding{.area = "processor", .text = fmt::format("{}: {}", model, kernels)};
  if (has("amx_bf16") && has("amx_tile")) {
    if (kernels.find("amx kernels") != std::string::npos) return finding;
    finding.severity = Severity::warn;
    finding.advice =
        "the processor has AMX, but it is not enabled: check BABELRING_CPU_ISA, or use Linux 5.16 or newer";
    return finding;
  }
  if (has("avx512_bf16")) return finding;
  finding.severity = Severity::warn;
  finding.advice = "no AMX and no AVX-512 BF16: bf16 is slow or missing, use training.precision=f32";
  return finding;
}

Diagnosis count_finding(const KernelFiles& files, const ProcessorInfo& info, int processors) {
  const double quota = processor_quota(files.proc, files.sys / "fs/cgroup");
  Diagnosis finding{
      .area = "processor",
      .text = fmt::format("this process may use {} of {} processors", processors, std::max(info.count, processors))};
  if (quota > 0 && quota < processors) {
    finding.severity = Severity::warn;
    finding.text += fmt::format(", limited to the time of {:.1f} (cgroup quota)", quota);
    finding.advice =
        fmt::format("by default all ranks on this host have {} thread{} in total; more would not be faster",
                    std::max(1, static_cast<int>(quota)), quota < 2 ? "" : "s");
  }
  double load = 0;
  std::ifstream(files.proc / "loadavg") >> load;
  if (load > 0.5 * processors) {
    finding.severity = Severity::warn;
    finding.text += fmt::format("; load {:.1f}", load);
    if (finding.advice.empty()) finding.advice = "other programs are using the processors, which slows down training";
  }
  return finding;
}

Diagnosis memory_finding(const KernelFiles& files) {
  constexpr double gib = 1 << 30;
  const MemoryInfo room = host_memory_info(files.proc, files.sys / "fs/cgroup");
  if (room.total == 0) return {.area = "memory", .text = "unknown: the kernel does not report it", .advice = {}};
  const auto available = static_cast<double>(room.free);
  Diagnosis finding{.area = "memory",
                    .text = fmt::format("{:.1f} GiB usable by this process, {:.1f} GiB available",
                                        static_cast<double>(room.total) / gib, available / gib)};
  if (available < 4 * gib) {
    finding.severity = available < gib ? Severity::fail : Severity::warn;
    finding.advice =
        "a rank of transformer-base needs about 4 GiB: set data.micro_batch_tokens, or use a smaller preset";
  }
  return finding;
}

}  // namespace

Diagnosis libraries_finding(const LibraryVersions& libraries) {
  return {.area = "libraries", .text = text_of(libraries), .advice = {}};
}

Diagnoses machine_findings(const KernelFiles& files, const std::string& kernels, int processors) {
  const ProcessorInfo info = read_processor_info(files);
  return {feature_finding(info, kernels), count_finding(files, info, processors), memory_finding(files)};
}

}  // namespace babelring

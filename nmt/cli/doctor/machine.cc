#include "nmt/cli/doctor/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

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
  const std::string model = info.model.empty() ? "a processor that the kernel does not describe" : info.model;
  Diagnosis finding{.area = "processor", .text = fmt::format("{}: {}", model, kernels)};
  if (has("amx_bf16") && has("amx_tile")) {
    if (kernels.find("AMX") != std::string::npos) return finding;
    finding.verdict = Verdict::warn;
    finding.advice =
        "it has AMX tiles, which this process does not get: see BABELRING_CPU_ISA, or a newer kernel (5.16)";
    return finding;
  }
  if (has("avx512_bf16")) return finding;
  finding.verdict = Verdict::warn;
  finding.advice = "no AMX and no AVX-512 BF16: bf16 is slow or missing, use training.precision=f32";
  return finding;
}

/// Of this process's cgroup (version 2), or what the container shows as its root.
std::string cgroup_value(const KernelFiles& files, const std::string& name) {
  const fs::path root = files.sys / "fs/cgroup";
  const std::string own = first_line(files.proc / "self/cgroup");  // "0::/user.slice"
  if (own.starts_with("0::/")) {
    const std::string value = first_line(root / own.substr(4) / name);
    if (!value.empty()) return value;
  }
  return first_line(root / name);
}

/// Processors that the cgroup's quota amounts to; 0: no limit.
double processor_quota(const KernelFiles& files) {
  std::istringstream words(cgroup_value(files, "cpu.max"));  // "150000 100000", "max 100000"
  double quota = 0, period = 0;
  words >> quota >> period;
  return !words.fail() && period > 0 ? quota / period : 0;
}

Diagnosis count_finding(const KernelFiles& files, const ProcessorInfo& info, int processors) {
  const double quota = processor_quota(files);
  Diagnosis finding{
      .area = "processor",
      .text = fmt::format("this process may use {} of {} processors", processors, std::max(info.count, processors))};
  if (quota > 0 && quota < processors) {
    finding.verdict = Verdict::warn;
    finding.text += fmt::format(", for {:.1f} of them in time (cgroup)", quota);
    finding.advice = fmt::format("set training.threads so that all ranks here have {} threads together",
                                 std::max(1, static_cast<int>(quota)));
  }
  double load = 0;
  std::ifstream(files.proc / "loadavg") >> load;
  if (load > 0.5 * processors) {
    finding.verdict = Verdict::warn;
    finding.text += fmt::format("; load {:.1f}", load);
    if (finding.advice.empty()) finding.advice = "others compute here: training shares the processors with them";
  }
  return finding;
}

Diagnosis memory_finding(const KernelFiles& files) {
  constexpr double gib = 1 << 30;
  double total = 0, available = 0;
  std::ifstream stream(files.proc / "meminfo");
  std::string name, rest;
  for (double kibibytes = 0; stream >> name >> kibibytes && std::getline(stream, rest);) {
    if (name == "MemTotal:") total = kibibytes * 1024;
    if (name == "MemAvailable:") available = kibibytes * 1024;
  }
  Diagnosis finding{.area = "memory",
                    .text = fmt::format("{:.1f} GiB, {:.1f} GiB available", total / gib, available / gib)};
  double limit = 0;
  std::istringstream(cgroup_value(files, "memory.max")) >> limit;
  if (limit > 0 && limit < total) finding.text += fmt::format(", a limit of {:.1f} GiB (cgroup)", limit / gib);
  const double usable = limit > 0 ? std::min(limit, available) : available;
  if (usable < 4 * gib) {
    finding.verdict = usable < gib ? Verdict::fail : Verdict::warn;
    finding.advice = "a rank of transformer-base wants about 4 GiB: set data.micro_batch_tokens, or a smaller preset";
  }
  return finding;
}

}  // namespace

Diagnoses machine_findings(const KernelFiles& files, const std::string& kernels, int processors) {
  const ProcessorInfo info = read_processor_info(files);
  return {feature_finding(info, kernels), count_finding(files, info, processors), memory_finding(files)};
}

}  // namespace babelring

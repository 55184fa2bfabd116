#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/json.h"
#include "base/records/library_versions.h"
#include "base/result.h"
#include "client/server_access.h"

namespace babelring {

/// ok: works; warn: works with restrictions; fail: does not work.
enum class Severity { ok, warn, fail };

/// One line of `nmt doctor`.
struct Diagnosis {
  std::string area;  // "network"
  Severity severity = Severity::ok;
  std::string text;    // what was found
  std::string advice;  // what to do; empty: nothing
};
using Diagnoses = std::vector<Diagnosis>;

/// Root folders of the kernel's virtual file systems; replaced in tests.
struct KernelFiles {
  std::filesystem::path proc = "/proc", sys = "/sys";
};

/// The first line of a file, without newline; empty if it cannot be read.
std::string first_line(const std::filesystem::path& file);

/// The worst severity.
Severity worst_of(const Diagnoses& findings);
/// Formats the findings as text: one line each, with the advice below.
std::string text_of(const Diagnoses& findings);
/// {"verdict": "ok", "findings": [{"area", "verdict", "text", "advice"}]}.
json::object json_of(const Diagnoses& findings);

/// The GPUs and NVIDIA libraries found by Babelring's programs.
struct GpuReport {
  int cards = 0;       // number of NVIDIA GPUs in the machine, usable or not
  std::string driver;  // version line of the kernel driver; empty: not loaded
  /// Descriptions of the devices that the GPU backend can use, at least one. The Error says why it can use none.
  Result<std::vector<std::string>> devices = Error{};
  /// NCCL's version ("2.28.9"). The Error says why it cannot be loaded.
  Result<std::string> nccl = Error{};
};

/// Probes the GPUs: loads the GPU module, if a driver is loaded, opens each device, and loads NCCL by name.
GpuReport report_gpus(const KernelFiles& files);

Diagnoses gpu_findings(const GpuReport& report);

/// Checks the processor model and its instruction sets, the processors and memory available to this process within its
/// control groups, and the load of the machine. `kernels`: description of the CPU backend. `processors`: number of
/// processors in this process's affinity mask.
Diagnoses machine_findings(const KernelFiles& files, const std::string& kernels, int processors);

/// Names the versions of the libraries that can change results.
Diagnosis libraries_finding(const LibraryVersions& libraries);

/// Checks that the server responds, is ready and accepts the token, and compares its clock with the local clock.
Diagnoses server_findings(const ServerAccess& access);

/// Seconds by which an HTTP date ("Sun, 06 Nov 1994 08:49:37 GMT") is ahead of `now_ms` (Unix time in ms); 0 within the
/// same second. The Error quotes an invalid date.
Result<double> clock_ahead_s(const std::string& date, std::int64_t now_ms);

/// Checks that `folder` is suitable for runs: free space, locks between processes, durable writes. If it does not
/// exist, checks its nearest existing parent. Writes and removes a small file there.
Diagnoses storage_findings(const std::filesystem::path& folder);

/// Reads the files of a folder of `nmt prepare` or `nmt gssm data` and compares them with the digests of its manifest:
/// a finding for each file that differs, or one for all.
Diagnoses data_findings(const std::filesystem::path& folder);

}  // namespace babelring

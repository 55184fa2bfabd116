#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/doctor/finding.h"

namespace babelring {

/// What ranks on different hosts must have in common, and the processor's name.
struct HostReport {
  std::string nmt, worker;  // version and digest of the programs; empty: there is none beside `nmt`
  std::string kernels;      // that the CPU backend uses
  std::string processor;    // model

  bool operator==(const HostReport&) const = default;
};

/// Of this host. Throws Failure if the program's own file cannot be read.
HostReport report_host(const KernelFiles& files);
json::object json_of(const HostReport& report);

/// Another host's report, by running this program's path there: `remote_shell HOST nmt doctor --this-host`. The Error
/// is what it wrote instead. `remote_shell` is a command with options, split at spaces, without further shell syntax.
Result<HostReport> ask_host(const std::string& remote_shell, const std::string& host);

/// How other hosts differ from this one.
Diagnoses host_findings(const HostReport& own, const std::vector<std::pair<std::string, Result<HostReport>>>& others);

}  // namespace babelring

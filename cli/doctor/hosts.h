#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/doctor/finding.h"

namespace babelring {

/// The properties of a host that `nmt doctor --hosts` compares. All but the processor must be equal on the hosts of a
/// run.
struct HostReport {
  std::string nmt, worker;  // version and build of the programs; empty: not in the folder of `nmt`
  std::string kernels;      // kernels that the CPU backend uses
  std::string processor;    // model name

  bool operator==(const HostReport&) const = default;
};

/// The report of this host. Throws Failure if the program's own file cannot be read.
HostReport report_host(const KernelFiles& files);
json::object json_of(const HostReport& report);

/// Gets another host's report by running `remote_shell HOST NMT doctor --this-host`, where NMT is this program's path.
/// The Error is the last line of the output. `remote_shell` is a command with options, split at spaces, without other
/// shell syntax.
Result<HostReport> ask_host(const std::string& remote_shell, const std::string& host);

/// Compares other hosts with this one.
Diagnoses host_findings(const HostReport& own, const std::vector<std::pair<std::string, Result<HostReport>>>& others);

}  // namespace babelring

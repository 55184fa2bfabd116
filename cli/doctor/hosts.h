#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/records/library_versions.h"
#include "base/result.h"
#include "cli/doctor/checks.h"

namespace babelring {

/// The properties of a host that `nmt doctor --hosts` compares. Programs and kernels must be equal on the hosts of a
/// run.
struct HostReport {
  std::string nmt, worker;             // version and build of the programs; empty: not in the folder of `nmt`
  std::string kernels;                 // cpu_instruction_sets()
  std::string processor;               // model name
  std::string identity;                // host_identity()
  std::vector<std::string> addresses;  // of interfaces that lead to other hosts: without loopback and local bridges
  LibraryVersions libraries;           // own_libraries()
  std::string exchange;  // why the exchange with the host that asks failed; empty: it worked, or was not asked for

  bool operator==(const HostReport&) const = default;
};

/// A TCP socket that waits for connections at an address of this host.
struct Listener {
  FileDescriptor socket;
  std::string address, port;
};
Result<Listener> listen_at(const std::string& address);

/// Two hosts exchange 64 KiB in both directions at once, over a connection of one to the other and then over one in the
/// other direction, each within 10 s. A closed port and a path whose packets are smaller than the hosts believe fail;
/// the Error says where. The listener's side:
Status exchange_as_listener(const Listener& listener);
/// The other side, which connects to the listener first.
Status exchange_as_caller(const std::string& address, const std::string& port);

/// The report of this host. Throws Failure if the program's own file cannot be read.
HostReport report_host(const KernelFiles& files);
json::object json_of(const HostReport& report);

/// Gets another host's report by running `remote_shell HOST NMT doctor --this-host`, where NMT is this program's path.
/// The Error is the last line of the output. `remote_shell` is a command with options, split at spaces, without other
/// shell syntax. `source`: this host's address toward that host, at which the two exchange data meanwhile; empty: they
/// do not.
Result<HostReport> ask_host(const std::string& remote_shell, const std::string& host, const std::string& source);

/// Compares other hosts with this one.
Diagnoses host_findings(const HostReport& own, const std::vector<std::pair<std::string, Result<HostReport>>>& others);

}  // namespace babelring

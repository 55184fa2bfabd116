#pragma once

#include <map>
#include <optional>

#include "base/result.h"
#include "cli/doctor/finding.h"

namespace babelring {

struct NetworkInterface {
  std::string name;
  std::string state;          // up, down, unknown
  std::string kind;           // loopback, bridge, bond, tunnel, infiniband, ethernet
  std::int64_t megabits = 0;  // 0: the kernel does not know
  std::int64_t mtu = 0;
  std::vector<std::string> addresses;  // without fe80::, which routes nothing

  /// Whether other hosts may be reached by it.
  bool usable() const { return state != "down" && kind != "loopback" && kind != "bridge" && !addresses.empty(); }
};

/// Addresses of this machine's interfaces.
std::map<std::string, std::vector<std::string>> interface_addresses();

/// Those of /sys/class/net, with the addresses given.
std::vector<NetworkInterface> read_interfaces(const KernelFiles& files,
                                              const std::map<std::string, std::vector<std::string>>& addresses);

/// How this machine reaches a host.
struct HostRoute {
  std::string address;  // the host's
  std::string source;   // ours, that it is reached from
};
/// Asks the resolver, then the kernel which way it would send; nothing is sent. The Error says what failed.
Result<HostRoute> route_to(const std::string& host);

/// Asks for a host's route.
using FindRoute = Result<HostRoute> (*)(const std::string& host);

/// Interfaces, what leads to the hosts, and what to tell NCCL and Open MPI about it. `chosen`: NCCL_SOCKET_IFNAME, if
/// it is set.
Diagnoses network_findings(const std::vector<NetworkInterface>& interfaces, const std::vector<std::string>& hosts,
                           FindRoute find_route, const std::optional<std::string>& chosen);

/// Adapters of /sys/class/infiniband.
Diagnoses infiniband_findings(const KernelFiles& files);

}  // namespace babelring

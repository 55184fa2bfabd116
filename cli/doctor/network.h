#pragma once

#include <map>
#include <optional>

#include "base/result.h"
#include "cli/doctor/checks.h"

namespace babelring {

struct NetworkInterface {
  std::string name;
  std::string state;          // up, down, unknown
  std::string kind;           // loopback, bridge, bond, tunnel, infiniband, ethernet, virtual
  std::int64_t megabits = 0;  // link speed in Mbit/s; 0: unknown, or nominal as of a virtual interface
  std::int64_t mtu = 0;
  std::vector<std::string> addresses;  // without link-local IPv6 (fe80::)

  /// True if other hosts may be reachable through it.
  bool usable() const { return state != "down" && kind != "loopback" && kind != "bridge" && !addresses.empty(); }
};

/// IP addresses of this machine's interfaces, by interface name.
std::map<std::string, std::vector<std::string>> interface_addresses();

/// Reads the interfaces from /sys/class/net and adds the given addresses.
std::vector<NetworkInterface> read_interfaces(const KernelFiles& files,
                                              const std::map<std::string, std::vector<std::string>>& addresses);

/// The route from this machine to a host.
struct HostRoute {
  std::string address;  // address of the host
  std::string source;   // local address that packets are sent from
};
/// Resolves the host's name and asks the kernel for the route. Sends no packet to the host. The Error says what failed.
Result<HostRoute> route_to(const std::string& host);

/// Finds a host's route; replaced in tests.
using FindRoute = Result<HostRoute> (*)(const std::string& host);

/// Checks the interfaces and the routes to the hosts, and recommends interface settings for NCCL and Open MPI.
/// `chosen`: NCCL_SOCKET_IFNAME, if it is set.
Diagnoses network_findings(const std::vector<NetworkInterface>& interfaces, const std::vector<std::string>& hosts,
                           FindRoute find_route, const std::optional<std::string>& chosen);

/// Checks the adapters in /sys/class/infiniband.
Diagnoses infiniband_findings(const KernelFiles& files);

}  // namespace babelring

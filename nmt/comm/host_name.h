#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace babelring {

/// This machine's name from gethostname(); "unknown" if that fails.
std::string host_name();

/// Tells apart machines, and containers of one machine, that have the same name: the kernel's boot id, and the IPC and
/// PID namespaces, without which processes can neither share memory nor see one another. Equal for all processes of a
/// host.
std::string host_identity();

/// A name for each rank's host. Ranks with equal names and identities are on one host. The names of hosts that are
/// called the same get a number, in the order of their lowest ranks: "node", "node-2".
std::vector<std::string> distinct_host_names(const std::vector<std::string>& names,
                                             const std::vector<std::string>& identities);

/// Bridges to which no interface of hardware belongs, such as docker0 and virbr0, by name. Containers and virtual
/// machines of this host use them, and other hosts often have the same ones with the same addresses. `sys`: /sys.
std::vector<std::string> local_bridges(const std::filesystem::path& sys = "/sys");

/// A network that this host is in.
struct HostNetwork {
  std::string interface;
  std::string address;  // with the length of the prefix: "10.0.0.5/24"
};
/// The interfaces of this host that have an IPv4 address, without loopback.
std::vector<HostNetwork> host_networks();

/// The bridges among the interfaces by which ranks must not connect: all, but none if no other network would be left.
std::vector<std::string> bridges_to_avoid(const std::vector<std::string>& bridges,
                                          const std::vector<HostNetwork>& networks);

}  // namespace babelring

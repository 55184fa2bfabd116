#include "cli/doctor/network.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include "base/files.h"
#include "nmt/metering/network_counters.h"

namespace babelring {
namespace {

/// The numeric address; empty for families other than IP and for link-local IPv6, which is not routed.
std::string digits_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, address, sizeof four);
    inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, address, sizeof six);
    if (!IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr)) inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

}  // namespace

std::map<std::string, std::vector<std::string>> interface_addresses() {
  std::map<std::string, std::vector<std::string>> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, ::freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const std::string digits = digits_of(one->ifa_addr);
    if (!digits.empty()) addresses[one->ifa_name].push_back(digits);
  }
  return addresses;
}

Result<HostRoute> route_to(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), "1", &hints, &first); code != 0) {
    return Error{fmt::format("unknown host name: {}", ::gai_strerror(code))};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(first, ::freeaddrinfo);
  // connect() on a datagram socket sends nothing, but sets the source address that the kernel would use.
  const FileDescriptor socket(::socket(first->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage source{};
  socklen_t size = sizeof source;
  if (socket.get() < 0 || ::connect(socket.get(), first->ai_addr, first->ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&source), &size) != 0) {
    return Error{fmt::format("no route to {}: {}", digits_of(first->ai_addr), std::strerror(errno))};
  }
  return HostRoute{digits_of(first->ai_addr), digits_of(reinterpret_cast<sockaddr*>(&source))};
}

namespace {

namespace fs = std::filesystem;

std::int64_t kernel_number(const fs::path& file) {
  const std::string line = first_line(file);
  const std::size_t digits = line.find_first_not_of("0123456789");
  return line.empty() || digits != std::string::npos || line.size() > 12 ? 0 : std::stoll(line);  // -1: unknown
}

/// The interface's kind, from its folder in /sys/class/net. Type numbers are ARPHRD_* of linux/if_arp.h.
std::string kind_of(const fs::path& folder) {
  const std::int64_t type = kernel_number(folder / "type");
  if (type == 772) return "loopback";
  if (type == 32) return "infiniband";
  if (fs::exists(folder / "bridge")) return "bridge";
  if (fs::exists(folder / "bonding")) return "bond";
  if (type != 1) return "tunnel";
  return is_virtual_interface(folder) ? "virtual" : "ethernet";
}

/// In Mbit/s; 0: unknown.
std::int64_t speed_of(const fs::path& folder, const std::string& kind) {
  return kind == "virtual" || kind == "tunnel" ? 0 : kernel_number(folder / "speed");
}

Diagnosis interface_finding(const NetworkInterface& one) {
  constexpr std::int64_t slow_megabits = 1000;
  std::string text = fmt::format("{}: {}, {}", one.name, one.kind, one.state);
  if (one.megabits > 0) text += fmt::format(", {} Mbit/s", one.megabits);
  if (one.mtu > 0) text += fmt::format(", mtu {}", one.mtu);
  text += one.addresses.empty() ? ", no address" : fmt::format(", {}", fmt::join(one.addresses, " "));
  Diagnosis finding{.area = "network", .text = text};
  if (one.usable() && one.megabits > 0 && one.megabits < slow_megabits) {
    finding.severity = Severity::warn;
    finding.advice = "slower than 1 Gbit/s: gradients of 240 MB take at least 4 s between two hosts";
  }
  return finding;
}

const NetworkInterface* interface_with(const std::vector<NetworkInterface>& interfaces, const std::string& address) {
  const auto one = std::find_if(interfaces.begin(), interfaces.end(), [&](const NetworkInterface& candidate) {
    return std::find(candidate.addresses.begin(), candidate.addresses.end(), address) != candidate.addresses.end();
  });
  return one == interfaces.end() ? nullptr : &*one;
}

/// Describes the route to a host. Adds its interface to `used`, unless the host is this machine.
Diagnosis host_finding(const std::vector<NetworkInterface>& interfaces, const std::string& host, FindRoute find_route,
                       std::set<std::string>& used) {
  Diagnosis finding{.area = "network", .text = {}};
  const Result<HostRoute> route = find_route(host);
  if (!route) {
    finding.severity = Severity::fail;
    finding.text = fmt::format("{}: {}", host, route.error());
    finding.advice = "add it to DNS or to /etc/hosts on every host, and check the network's routes";
    return finding;
  }
  const NetworkInterface* by = interface_with(interfaces, route->source);
  const std::string way = by != nullptr ? by->name : "no interface with " + route->source;
  finding.text = fmt::format("{} is {}: by {}, from {}", host, route->address, way, route->source);
  if (by == nullptr) {
    finding.severity = Severity::warn;
    finding.advice = "the kernel sends from an address of none of these interfaces: choose the interface by hand";
  } else if (route->address == "127.0.1.1") {  // Debian's line for the machine's own name in /etc/hosts
    finding.advice =
        "harmless for ranks, which use the addresses of interfaces; a server that listens at this name is reached from "
        "here only";
  } else if (by->kind == "loopback") {
    finding.severity = Severity::warn;
    finding.advice = "this is the local machine: other hosts do not reach it at this address";
  } else if (interface_with(interfaces, route->address) == nullptr) {
    used.insert(by->name);
  }
  return finding;
}

std::string proposal(const std::string& name) {
  return fmt::format("mpirun -x NCCL_SOCKET_IFNAME={0} --mca btl_tcp_if_include {0} --mca oob_tcp_if_include {0} …",
                     name);
}

Diagnosis proposal_finding(const std::vector<NetworkInterface>& interfaces, const std::set<std::string>& used,
                           bool hosts_given) {
  Diagnosis finding{.area = "network", .text = {}};
  std::vector<std::string> usable;
  for (const NetworkInterface& one : interfaces) {
    if (one.usable()) usable.push_back(one.name);
  }
  if (used.size() > 1) {
    finding.severity = Severity::warn;
    finding.text = fmt::format("the hosts are reached by different interfaces: {}", fmt::join(used, ", "));
    finding.advice = "a ring needs one network: use host names in that network, or choose the interface by hand";
  } else if (used.size() == 1) {
    finding.text = fmt::format(
        "NCCL_SOCKET_IFNAME={0} and btl_tcp_if_include={0} would select the interface to the hosts", *used.begin());
    finding.advice = proposal(*used.begin());
  } else if (hosts_given) {
    finding.text = "no other host: ranks on one machine use no network interface";
  } else if (usable.size() == 1) {
    finding.text =
        fmt::format("NCCL_SOCKET_IFNAME={0} and btl_tcp_if_include={0} would select the only interface", usable[0]);
    finding.advice = "only for a run on several hosts: " + proposal(usable[0]);
  } else {
    finding.text = usable.empty()
                       ? "no interface leads to other hosts"
                       : fmt::format("several interfaces may lead to other hosts: {}", fmt::join(usable, ", "));
    finding.advice = "for a run on several hosts: nmt doctor --hosts a,b shows the right one";
  }
  return finding;
}

/// NCCL's syntax: "eth,ib" are prefixes, "=eth0" is a whole name, "^docker" excludes.
Diagnosis chosen_finding(const std::vector<NetworkInterface>& interfaces, const std::string& chosen) {
  std::string list = chosen;
  const bool without = list.starts_with('^');
  const bool whole = list.starts_with('=') || list.starts_with("^=");
  list.erase(0, (without ? 1U : 0U) + (whole ? 1U : 0U));
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<std::string> taken;
  for (const NetworkInterface& one : interfaces) {
    const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return whole ? one.name == name : one.name.starts_with(name);
    });
    if (named != without && one.state != "down" && !one.addresses.empty()) taken.push_back(one.name);
  }
  Diagnosis finding{.area = "network",
                    .text = fmt::format("NCCL_SOCKET_IFNAME={} selects {}", chosen, fmt::join(taken, ", "))};
  if (taken.empty()) {
    finding.severity = Severity::fail;
    finding.text = fmt::format("NCCL_SOCKET_IFNAME={} selects no interface that is up and has an address", chosen);
    finding.advice = "unset it, or set it to one of the interfaces above";
  }
  return finding;
}

}  // namespace

std::vector<NetworkInterface> read_interfaces(const KernelFiles& files,
                                              const std::map<std::string, std::vector<std::string>>& addresses) {
  std::vector<NetworkInterface> interfaces;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(files.sys / "class/net", error)) {
    const fs::path& folder = entry.path();
    if (!fs::is_directory(folder)) continue;  // bonding_masters
    const std::string kind = kind_of(folder);
    NetworkInterface one{.name = folder.filename().string(),
                         .state = first_line(folder / "operstate"),
                         .kind = kind,
                         .megabits = speed_of(folder, kind),
                         .mtu = kernel_number(folder / "mtu"),
                         .addresses = {}};
    if (const auto found = addresses.find(one.name); found != addresses.end()) one.addresses = found->second;
    interfaces.push_back(std::move(one));
  }
  std::sort(interfaces.begin(), interfaces.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return interfaces;
}

Diagnoses network_findings(const std::vector<NetworkInterface>& interfaces, const std::vector<std::string>& hosts,
                           FindRoute find_route, const std::optional<std::string>& chosen) {
  Diagnoses findings;
  for (const NetworkInterface& one : interfaces) findings.push_back(interface_finding(one));
  std::set<std::string> used;
  for (const std::string& host : hosts) findings.push_back(host_finding(interfaces, host, find_route, used));
  findings.push_back(proposal_finding(interfaces, used, !hosts.empty()));
  if (chosen) findings.push_back(chosen_finding(interfaces, *chosen));
  return findings;
}

Diagnoses infiniband_findings(const KernelFiles& files) {
  Diagnoses findings;
  std::error_code error;
  for (const auto& adapter : fs::directory_iterator(files.sys / "class/infiniband", error)) {
    for (const auto& port : fs::directory_iterator(adapter.path() / "ports", error)) {
      const std::string state = first_line(port.path() / "state");  // "4: ACTIVE"
      Diagnosis finding{.area = "network",
                        .text = fmt::format("{} port {}: {}, {}, {}", adapter.path().filename().string(),
                                            port.path().filename().string(), first_line(port.path() / "link_layer"),
                                            state, first_line(port.path() / "rate"))};
      if (state.find("ACTIVE") == std::string::npos) {
        finding.severity = Severity::warn;
        finding.advice = "NCCL uses only active ports: check the cable, the switch and the subnet manager";
      }
      findings.push_back(finding);
    }
  }
  std::sort(findings.begin(), findings.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
  return findings;
}

}  // namespace babelring

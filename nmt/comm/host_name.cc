#include "nmt/comm/host_name.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// Hardware, or what is made of hardware: a bond, a VLAN.
bool leads_out(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "device", error)) return true;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const bool below = entry.path().filename().string().starts_with("lower_");
    if (below && leads_out(folder.parent_path() / entry.path().filename().string().substr(6))) return true;
  }
  return false;
}

std::uint32_t bits_of(const sockaddr* address) {
  sockaddr_in four{};
  std::memcpy(&four, address, sizeof four);
  return ntohl(four.sin_addr.s_addr);
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string("unknown");
}

std::string host_identity() {
  std::string identity;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), identity);
  for (const char* kind : {"ipc", "pid"}) {
    std::error_code error;
    identity += " " + fs::read_symlink(fmt::format("/proc/self/ns/{}", kind), error).string();
  }
  return identity;
}

std::vector<std::string> distinct_host_names(const std::vector<std::string>& names,
                                             const std::vector<std::string>& identities) {
  std::set<std::string> taken(names.begin(), names.end());
  std::map<std::pair<std::string, std::string>, std::string> known;
  std::set<std::string> given;
  std::vector<std::string> distinct;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto [host, is_new] = known.try_emplace({names[rank], identities[rank]}, names[rank]);
    for (int number = 2; is_new && !given.insert(host->second).second; ++number) {
      const std::string numbered = fmt::format("{}-{}", names[rank], number);
      if (taken.insert(numbered).second) host->second = numbered;
    }
    distinct.push_back(host->second);
  }
  return distinct;
}

std::vector<std::string> local_bridges(const fs::path& sys) {
  std::vector<std::string> bridges;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(sys / "class/net", error)) {
    const fs::path& folder = entry.path();
    if (fs::exists(folder / "bridge", error) && !leads_out(folder)) bridges.push_back(folder.filename().string());
  }
  std::sort(bridges.begin(), bridges.end());
  return bridges;
}

std::vector<HostNetwork> host_networks() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  std::vector<HostNetwork> networks;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || one->ifa_netmask == nullptr) continue;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const std::uint32_t address = bits_of(one->ifa_addr);
    networks.push_back(
        {one->ifa_name, fmt::format("{}.{}.{}.{}/{}", address >> 24, address >> 16 & 255, address >> 8 & 255,
                                    address & 255, std::popcount(bits_of(one->ifa_netmask)))});
  }
  return networks;
}

std::vector<std::string> bridges_to_avoid(const std::vector<std::string>& bridges,
                                          const std::vector<HostNetwork>& networks) {
  const bool others_remain = std::any_of(networks.begin(), networks.end(), [&](const HostNetwork& network) {
    return std::find(bridges.begin(), bridges.end(), network.interface) == bridges.end();
  });
  return others_remain ? bridges : std::vector<std::string>();
}

}  // namespace babelring

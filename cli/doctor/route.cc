#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/file_descriptor.h"
#include "cli/doctor/network.h"

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

}  // namespace babelring

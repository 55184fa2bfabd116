#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "cli/doctor/hosts.h"

namespace babelring {
namespace {

constexpr std::size_t exchanged_bytes = 64 * 1024;  // some 45 full packets of an Ethernet
constexpr std::size_t port_bytes = 8;               // the first ones: the sender's port in decimal digits, padded

using Time = SteadyClock::time_point;

/// False once `deadline` has passed.
bool wait_for(int descriptor, short events, Time deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    pollfd waiting{.fd = descriptor, .events = events, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

std::unique_ptr<addrinfo, void (*)(addrinfo*)> parse_address(const std::string& address, const std::string& port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(address.c_str(), port.c_str(), &hints, &first) != 0) first = nullptr;
  return {first, ::freeaddrinfo};
}

/// The numeric address and port of this or the other end of a connection.
std::array<std::string, 2> end_of(int descriptor, int (*find)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (find(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV);
  }
  return {host.data(), port.data()};
}

Result<FileDescriptor> connect_to(const std::string& address, const std::string& port, Time deadline) {
  const auto failed = [&](const std::string& why) {
    return Error{fmt::format("cannot connect to {} port {}: {}", address, port, why)};
  };
  const auto place = parse_address(address, port);
  if (place == nullptr) return failed("not an address");
  FileDescriptor socket(::socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed(std::strerror(errno));
  if (::connect(socket.get(), place->ai_addr, place->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return failed(std::strerror(errno));
  }
  if (!wait_for(socket.get(), POLLOUT, deadline)) return failed("no answer within 10 s");
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return failed(std::strerror(error));
  return socket;
}

Result<FileDescriptor> accept_at(const FileDescriptor& listener, Time deadline) {
  if (!wait_for(listener.get(), POLLIN, deadline)) return Error{"no connection came within 10 s"};
  FileDescriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return Error{std::strerror(errno)};
  return socket;
}

/// Sends and receives at the same time. Returns the other end's port.
Result<std::string> exchange(const FileDescriptor& socket, const std::string& port, Time deadline) {
  std::string out(exchanged_bytes, '.'), in(exchanged_bytes, '\0');
  out.replace(0, port_bytes, fmt::format("{:<8}", port));
  std::size_t sent = 0, received = 0;
  while (sent < out.size() || received < in.size()) {
    const short events = static_cast<short>((sent < out.size() ? POLLOUT : 0) | (received < in.size() ? POLLIN : 0));
    if (!wait_for(socket.get(), events, deadline)) {
      return Error{fmt::format("connected to {}, but {} of {} KiB arrived within 10 s",
                               end_of(socket.get(), ::getpeername)[0], received / 1024, exchanged_bytes / 1024)};
    }
    const ssize_t read = ::recv(socket.get(), in.data() + received, in.size() - received, MSG_DONTWAIT);
    if (read < 0 && errno != EAGAIN) return Error{std::strerror(errno)};
    if (read == 0 && received < in.size()) return Error{"the other host closed the connection"};
    const ssize_t written = ::send(socket.get(), out.data() + sent, out.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written < 0 && errno != EAGAIN) return Error{std::strerror(errno)};
    received += static_cast<std::size_t>(std::max<ssize_t>(0, read));
    sent += static_cast<std::size_t>(std::max<ssize_t>(0, written));
  }
  return in.substr(0, in.find(' '));
}

Time deadline_from_now() {
  return SteadyClock::now() + std::chrono::seconds(10);
}

}  // namespace

Result<Listener> listen_at(const std::string& address) {
  const auto place = parse_address(address, "0");
  if (place == nullptr) return Error{fmt::format("'{}' is no address", address)};
  FileDescriptor socket(::socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket || ::bind(socket.get(), place->ai_addr, place->ai_addrlen) != 0 || ::listen(socket.get(), 1) != 0) {
    return Error{fmt::format("cannot listen at {}: {}", address, std::strerror(errno))};
  }
  const std::string port = end_of(socket.get(), ::getsockname)[1];
  return Listener{.socket = std::move(socket), .address = address, .port = port};
}

Status exchange_as_listener(const Listener& listener) {
  auto incoming = accept_at(listener.socket, deadline_from_now());
  if (!incoming) return Error{fmt::format("{} port {}: {}", listener.address, listener.port, incoming.error())};
  const std::string peer = end_of(incoming->get(), ::getpeername)[0];
  const auto port = exchange(*incoming, listener.port, deadline_from_now());
  if (!port) return Error{port.error()};
  auto outgoing = connect_to(peer, *port, deadline_from_now());
  if (!outgoing) return Error{outgoing.error()};
  const auto done = exchange(*outgoing, "", deadline_from_now());
  return done ? Status() : Status(Error{done.error()});
}

Status exchange_as_caller(const std::string& address, const std::string& port) {
  auto outgoing = connect_to(address, port, deadline_from_now());
  if (!outgoing) return Error{outgoing.error()};
  const auto listener = listen_at(end_of(outgoing->get(), ::getsockname)[0]);
  if (!listener) return Error{listener.error()};
  const auto sent = exchange(*outgoing, listener->port, deadline_from_now());
  if (!sent) return Error{sent.error()};
  auto incoming = accept_at(listener->socket, deadline_from_now());
  if (!incoming) return Error{fmt::format("{} port {}: {}", listener->address, listener->port, incoming.error())};
  const auto done = exchange(*incoming, "", deadline_from_now());
  return done ? Status() : Status(Error{done.error()});
}

}  // namespace babelring

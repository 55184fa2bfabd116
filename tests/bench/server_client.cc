#include "tests/bench/server_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/failure.h"

namespace babelring::bench {

Connection::Connection(std::uint16_t port, std::string token)
    : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), token_(std::move(token)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(socket_);
    fail("connect to port {}: {}", port, std::generic_category().message(errno));
  }
}

Connection::~Connection() {
  close(socket_);
}

void Connection::send_all(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) fail("send: {}", std::generic_category().message(errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Connection::get(const std::string& path) {
  const std::string authorization = token_.empty() ? "" : "Authorization: Bearer " + token_ + "\r\n";
  send_all("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + authorization + "\r\n");
}

int Connection::post(const std::string& path, std::string_view body) {
  const std::string authorization = token_.empty() ? "" : "Authorization: Bearer " + token_ + "\r\n";
  send_all(fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", path,
      authorization, body.size()));
  send_all(body);
  std::string answer;
  std::array<char, 4096> bytes;
  for (;;) {
    const auto end = answer.find("\r\n\r\n");
    if (end != std::string::npos) {
      const auto at = answer.find("Content-Length: ");
      const std::size_t length = at < end ? std::strtoul(answer.c_str() + at + 16, nullptr, 10) : 0;
      if (answer.size() >= end + 4 + length) return std::atoi(answer.c_str() + 9);
    }
    const ssize_t size = recv(socket_, bytes.data(), bytes.size(), 0);
    if (size <= 0) return 0;
    answer.append(bytes.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace babelring::bench

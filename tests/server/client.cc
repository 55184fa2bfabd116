#include "tests/server/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>

namespace babelring::testing {

Client::Client(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{8, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(socket_);
    throw std::runtime_error("cannot connect");
  }
}

Client::~Client() {
  close(socket_);
}

void Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the peer has closed; what it said before can still be read
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

bool Client::fill() {
  std::array<char, 65536> bytes;
  const ssize_t size = recv(socket_, bytes.data(), bytes.size(), 0);
  if (size > 0) buffer_.append(bytes.data(), static_cast<std::size_t>(size));
  return size > 0;
}

bool Client::closed() {
  std::array<char, 4096> bytes;
  ssize_t size = 0;
  while ((size = recv(socket_, bytes.data(), bytes.size(), 0)) > 0) {
  }
  return size == 0 || errno == ECONNRESET;
}

Answer Client::receive(bool head) {
  Answer answer;
  std::size_t end;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return answer;
  }
  answer.status = std::stoi(buffer_.substr(9, 3));
  for (std::size_t at = buffer_.find("\r\n") + 2; at < end;) {
    const std::size_t line_end = buffer_.find("\r\n", at), colon = buffer_.find(": ", at);
    std::string name = buffer_.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    answer.headers[name] = buffer_.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  buffer_.erase(0, end + 4);
  if (head || answer.status == 304) return answer;
  if (answer.headers.contains("content-length")) {
    const std::size_t size = std::stoul(answer.headers["content-length"]);
    while (buffer_.size() < size && fill()) {
    }
    answer.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
  } else if (answer.headers.contains("transfer-encoding")) {
    for (;;) {
      std::size_t line;
      while ((line = buffer_.find("\r\n")) == std::string::npos && fill()) {
      }
      const std::size_t size = std::stoul(buffer_, nullptr, 16);
      while (buffer_.size() < line + 4 + size && fill()) {
      }
      answer.body += buffer_.substr(line + 2, size);
      buffer_.erase(0, line + 4 + size);
      if (size == 0) break;
    }
  }
  return answer;
}

Answer Client::get(const std::string& path, const std::string& headers) {
  send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  return receive();
}

Answer Client::post(const std::string& path, const std::string& body) {
  send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
       std::to_string(body.size()) + "\r\n\r\n" + body);
  return receive();
}

std::string Client::read_until(std::string_view text) {
  while (buffer_.find(text) == std::string::npos && fill()) {
  }
  return buffer_;
}

}  // namespace babelring::testing

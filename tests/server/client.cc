#include "tests/server/client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <stdexcept>

#include "base/json.h"

namespace babelring::testing {

Client::Client(std::uint16_t port, std::string token, const std::string& host)
    : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), token_(std::move(token)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = inet_addr(host.c_str());
  const timeval patience{60, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(socket_);
    throw std::runtime_error("cannot connect");
  }
}

Client::~Client() {
  if (socket_ >= 0) close(socket_);
}

void Client::send(std::string_view bytes) {
  note_sent(bytes);
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the peer has closed; its earlier bytes can still be read
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::optional<std::size_t> Client::send_some(std::string_view bytes) {
  const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EINTR) return 0;
  return std::nullopt;
}

void Client::note_sent(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find("\r\n"));
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || !line.ends_with(" HTTP/1.1") || bytes.size() == line.size()) return;
  asked_.emplace_back(line.substr(0, first), line.substr(first + 1, last - first - 1));
}

void Client::note_answer(const Answer& answer) {
  if (asked_.empty() || answer.status < 200) return;
  const auto [method, target] = std::move(asked_.front());
  asked_.pop_front();
  const char* file = std::getenv("BABELRING_EXCHANGES");
  if (file == nullptr || *file == '\0') return;
  const auto header = [&](const char* name) {
    const auto found = answer.headers.find(name);
    return found == answer.headers.end() ? json::value(nullptr) : json::value(found->second);
  };
  json::object line = {{"method", method},
                       {"path", target},
                       {"status", answer.status},
                       {"type", header("content-type")},
                       {"etag", header("etag")},
                       {"cache", header("cache-control")},
                       {"length", answer.body.size()}};
  const bool json_body =
      answer.headers.contains("content-type") && answer.headers.at("content-type").find("json") != std::string::npos;
  const bool packed = answer.headers.contains("content-encoding");
  if (json_body && !packed && answer.body.size() < 4'000'000) line["body"] = answer.body;
  const std::string text = to_text(line) + "\n";
  const int descriptor = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const bool written = write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(descriptor);
  if (!written) throw std::runtime_error("cannot append to BABELRING_EXCHANGES");
}

ssize_t Client::take(std::span<char> bytes) {
  ssize_t size;
  do {  // a receive with a time limit is not taken up again by itself when a child's end interrupts it
    size = recv(socket_, bytes.data(), bytes.size(), 0);
  } while (size < 0 && errno == EINTR);
  return size;
}

bool Client::fill() {
  std::array<char, 65536> bytes;
  const ssize_t size = take(bytes);
  if (size > 0) buffer_.append(bytes.data(), static_cast<std::size_t>(size));
  return size > 0;
}

void Client::finish_sending() {
  shutdown(socket_, SHUT_WR);
}

void Client::reset() {
  const linger at_once{1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(std::exchange(socket_, -1));
}

bool Client::closed() {
  std::array<char, 4096> bytes;
  ssize_t size = 0;
  while ((size = take(bytes)) > 0) {
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
  if (head || answer.status < 200 || answer.status == 304 || answer.status == 204) {
    note_answer(answer);
    return answer;
  }
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
  note_answer(answer);
  return answer;
}

Answer Client::get(const std::string& path, const std::string& headers) {
  return request("GET", path, "", headers);
}

Answer Client::post(const std::string& path, const std::string& body, const std::string& headers) {
  return request("POST", path, body, headers);
}

Answer Client::request(const std::string& method, const std::string& path, const std::string& body,
                       const std::string& headers) {
  std::string text = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers;
  if (!token_.empty()) text += authorization(token_);
  if (method != "GET" && method != "HEAD") {
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  send(text + "\r\n" + body);
  return receive(method == "HEAD");
}

std::string Client::read_until(std::string_view text) {
  while (buffer_.find(text) == std::string::npos && fill()) {
  }
  if (const auto type = buffer_.find("text/event-stream"); type != std::string::npos && !asked_.empty()) {
    note_answer({std::stoi(buffer_.substr(9, 3)), {{"content-type", "text/event-stream"}}, ""});
  }
  return buffer_;
}

}  // namespace babelring::testing

#include "tests/client/scripted_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cctype>

#include "tests/soon.h"

namespace babelring {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

std::string ScriptedRequest::header(const std::string& name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? std::string() : at->second;
}

ScriptedServer::ScriptedServer(Script script, std::uint16_t port)
    : script_(std::move(script)),
      acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), port)),
      port_(acceptor_.local_endpoint().port()),
      acceptor_thread_([this] { accept_all(); }) {}

ScriptedServer::~ScriptedServer() {
  ending_ = true;
  ::shutdown(acceptor_.native_handle(), SHUT_RDWR);  // wakes accept()
  acceptor_thread_.join();
  {
    const std::lock_guard lock(mutex_);
    for (Socket* socket : open_) ::shutdown(socket->native_handle(), SHUT_RDWR);
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

std::vector<ScriptedRequest> ScriptedServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

bool ScriptedServer::wait_for_requests(std::size_t count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, longest_wait, [&] { return requests_.size() >= count; });
}

void ScriptedServer::accept_all() {
  while (!ending_) {
    boost::system::error_code code;
    auto socket = std::make_shared<Socket>(context_);
    acceptor_.accept(*socket, code);
    if (code) continue;
    ++connections_;
    const std::lock_guard lock(mutex_);
    open_.push_back(socket.get());
    threads_.emplace_back([this, socket] {
      talk(*socket);
      const std::lock_guard closing(mutex_);
      std::erase(open_, socket.get());
      boost::system::error_code ignored;
      socket->close(ignored);
    });
  }
}

void ScriptedServer::talk(Socket& socket) {
  boost::beast::flat_buffer buffer;
  while (!ending_) {
    http::request<http::string_body> request;
    boost::system::error_code code;
    http::read(socket, buffer, request, code);
    if (code) return;
    ScriptedRequest seen;
    seen.method = std::string(request.method_string());
    seen.target = std::string(request.target());
    seen.body = request.body();
    for (const auto& field : request) {
      std::string name(field.name_string());
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      seen.headers[name] = std::string(field.value());
    }
    {
      const std::lock_guard lock(mutex_);
      seen.number = static_cast<int>(requests_.size());
      requests_.push_back(seen);
      changed_.notify_all();
    }
    if (!answer(socket, script_(seen), request.method() == http::verb::head)) return;
  }
}

bool ScriptedServer::answer(Socket& socket, const ScriptedAnswer& answer, bool bodiless) {
  const auto wait_for_the_end = [this] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ending_.load(); });
    return false;
  };
  if (answer.silent) return wait_for_the_end();
  const bool in_pieces = !answer.pieces.empty();
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " As told\r\nContent-Type: " + answer.content_type;
  for (const std::string& header : answer.headers) head += "\r\n" + header;
  head += in_pieces ? "\r\nConnection: close" : "\r\nContent-Length: " + std::to_string(answer.body.size());
  boost::system::error_code code;
  asio::write(socket, asio::buffer(head + "\r\n\r\n"), code);
  for (const std::string& piece : answer.pieces) asio::write(socket, asio::buffer(piece), code);
  if (in_pieces) return answer.hold ? wait_for_the_end() : false;
  if (!bodiless) asio::write(socket, asio::buffer(answer.body.substr(0, answer.cut_after)), code);
  return !code && answer.cut_after >= answer.body.size();
}

}  // namespace babelring

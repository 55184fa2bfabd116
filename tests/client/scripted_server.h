#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace babelring {

/// A request as it came.
struct ScriptedRequest {
  int number = 0;  // from 0, over all connections
  std::string method, target, body;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const;
};

/// The response, byte for byte as the script says.
struct ScriptedAnswer {
  int status = 200;
  std::string body = {};
  std::vector<std::string> headers = {};  // "Retry-After: 1"
  std::string content_type = "application/json";
  std::vector<std::string> pieces = {};       // instead of a body: sent one by one, the connection then closed
  std::size_t cut_after = std::string::npos;  // bytes of the body, after which the connection is closed
  bool silent = false;                        // no answer; the connection stays
  bool hold = false;                          // after the pieces the connection stays open until the server ends
};

/// A small HTTP server on a loopback port that answers by a script; a thread for each connection.
class ScriptedServer {
 public:
  using Script = std::function<ScriptedAnswer(const ScriptedRequest&)>;
  explicit ScriptedServer(Script script, std::uint16_t port = 0);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<ScriptedRequest> requests() const;
  int connections() const { return connections_; }
  /// Waits for `count` requests; false if that takes over a minute.
  bool wait_for_requests(std::size_t count) const;

 private:
  using Socket = boost::asio::ip::tcp::socket;
  void accept_all();
  void talk(Socket& socket);
  /// False: close the connection.
  bool answer(Socket& socket, const ScriptedAnswer& answer, bool bodiless);

  Script script_;
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::atomic<bool> ending_ = false;
  std::atomic<int> connections_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  std::vector<ScriptedRequest> requests_;
  std::vector<Socket*> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_thread_;
};

}  // namespace babelring

#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/records/records.h"

namespace babelring {

/// The records that the real server keeps. Thread-safe; outlives restarts of TestServer.
class Ledger {
 public:
  /// Asked about each batch before it is stored: a status other than 200 refuses it. Before the first request.
  using Rule = std::function<int(const std::vector<Record>& records, std::size_t bytes)>;
  void set_rule(Rule rule) { rule_ = std::move(rule); }
  /// Stores a batch as the real server does: repeats are dropped. Returns the answer's status and body.
  std::pair<int, std::string> ingest(std::string_view run, std::string_view body);
  /// Forgets what each rank sent after this sequence, as a server does whose database lost its end.
  void lose_after(std::int64_t sequence);
  std::size_t records() const;
  std::int64_t duplicates() const;
  /// Sequences of an attempt's rank, in order of arrival.
  std::vector<std::int64_t> sequences(std::int64_t attempt, std::int64_t rank) const;

 private:
  Rule rule_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> sequences_;
  std::int64_t duplicates_ = 0;
};

/// The server's reaction to a request instead of, or after, storing it.
struct Behaviour {
  int status = 200;                    // other than 200: nothing is stored
  std::string body = "";               // if not empty: answers with it and stores nothing
  std::string retry_after = "";        // header, if not empty
  bool drop_after_storing = false;     // closes the connection instead of answering
  bool close_after_answer = false;     // as a server does with an idle connection
  std::chrono::milliseconds delay{0};  // before answering
};

/// A free loopback port that stays this test's while its servers come and go.
class HeldPort {
 public:
  HeldPort();
  std::uint16_t number() const { return socket_.local_endpoint().port(); }
  std::string address() const { return "http://127.0.0.1:" + std::to_string(number()); }

 private:
  boost::asio::io_context context_;
  // Bound, but not listening: nobody is given the port, and servers may share it.
  boost::asio::ip::tcp::acceptor socket_;
};

/// A small HTTP server on a loopback port, one connection at a time.
class TestServer {
 public:
  /// `behaviour` is asked for each request, with its number from 0. `port` 0 takes a free one.
  explicit TestServer(Ledger& ledger, std::function<Behaviour(int request)> behaviour = {}, std::uint16_t port = 0);
  ~TestServer();
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int requests() const { return requests_; }
  int connections() const { return connections_; }
  std::size_t largest_body() const { return largest_body_; }
  std::string newest_body() const;

 private:
  void serve();
  void talk(boost::asio::ip::tcp::socket& socket);

  Ledger& ledger_;
  std::function<Behaviour(int)> behaviour_;
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  std::atomic<int> requests_ = 0, connections_ = 0;
  std::atomic<std::size_t> largest_body_ = 0;
  std::atomic<bool> ending_ = false;
  mutable std::mutex mutex_;  // guards open_ and newest_body_
  std::string newest_body_;
  boost::asio::ip::tcp::socket* open_ = nullptr;  // the connection being served
  std::thread thread_;
};

}  // namespace babelring

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <string>

#include "server/http/connections.h"
#include "server/http/dispatcher.h"
#include "server/http/limits.h"
#include "server/http/request_head.h"
#include "server/http/transport.h"

namespace babelring::http {

namespace asio = boost::asio;

/// One connection: reads requests, one after another, and writes their responses. Everything runs on its strand.
class Session : public std::enable_shared_from_this<Session> {
 public:
  /// `tls` absent: plain. `address` is the client's.
  Session(asio::ip::tcp::socket socket, asio::ssl::context* tls, std::string address, const Dispatcher& dispatcher,
          const Limits& limits, Connections& connections);
  ~Session();

  /// Begins to serve; the session keeps itself alive until its connection ends.
  void start();
  /// Ends the session after the response in progress; at once if it waits for a request or streams events. Any thread.
  void finish();
  /// Ends it now. Any thread.
  void abort();
  const std::string& address() const { return address_; }

 private:
  template <class T>
  using Awaitable = asio::awaitable<T>;

  Awaitable<void> run();
  /// The TLS handshake, where there is one. False when the connection is over.
  Awaitable<bool> secure();
  /// Takes leave of the client, so that the last answer reaches one that still sends.
  Awaitable<void> part();
  /// False when the connection is over.
  Awaitable<bool> serve_one();
  Awaitable<bool> wait_for_request();
  /// The head's length in buffer_, 0 when the connection is over or the client was refused.
  Awaitable<std::size_t> read_head();
  Awaitable<bool> read_body(Request& request, std::int64_t length);
  Awaitable<Response> answer(std::shared_ptr<const Request> request, Dispatcher::Admission admission);
  Awaitable<void> refuse(int status, std::string code, std::string detail);

  /// Writes head and body. False when the connection cannot be used again.
  Awaitable<bool> write(const Request& request, Response& response);
  Awaitable<void> write_file(const FileSlice& slice);
  Awaitable<void> write_pieces(Producer& producer, bool chunked);
  Awaitable<void> write_events(const Request& request, EventSource& source);
  Awaitable<void> write_all(std::string_view first, std::string_view second);
  Awaitable<std::string> next_piece(Producer& producer);

  Awaitable<void> write_encrypted(const FileSlice& slice);

  /// Closes the socket unless a new deadline is set before this one passes.
  void set_deadline(std::chrono::milliseconds limit);
  void close();

  Transport transport_;
  asio::ip::tcp::socket& socket_;  // transport_'s
  asio::steady_timer deadline_, ready_;
  const Dispatcher& dispatcher_;
  const Limits& limits_;
  Connections& connections_;
  const std::string address_;
  std::string buffer_;
  std::size_t served_ = 0;
  bool finishing_ = false, interruptible_ = false, timed_out_ = false;
  bool woken_ = false;
};

}  // namespace babelring::http

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http/connections.h"
#include "server/http/dispatcher.h"
#include "server/http/limits.h"
#include "server/http/request_head.h"
#include "server/http/transport.h"

namespace babelring::http {

namespace asio = boost::asio;

/// One connection: reads requests, one after another, and writes their responses. Runs on the one thread of its
/// socket's context, except where a function says otherwise.
class Session : public std::enable_shared_from_this<Session> {
 public:
  /// `tls` null: plain. `address` is the client's.
  Session(asio::ip::tcp::socket socket, asio::ssl::context* tls, std::string address, const Dispatcher& dispatcher,
          const Limits& limits, Connections& connections);
  ~Session();

  /// Begins to serve; the session keeps itself alive until its connection ends.
  void start();
  /// Ends the session after the response in progress; at once if it is idle or streams events. Any thread.
  void finish();
  /// Ends it now. Any thread.
  void abort();
  const std::string& address() const { return address_; }

 private:
  template <class T>
  using Awaitable = asio::awaitable<T>;

  Awaitable<void> run();
  /// Performs the TLS handshake, if there is TLS. False if the connection is over.
  Awaitable<bool> secure();
  /// Lingering close, so that the last response also reaches a client that is still sending.
  Awaitable<void> part();
  /// Serves one request. False if the connection is over or has become an event stream.
  Awaitable<bool> serve_one();
  /// Length of the head that is now in buffer_; 0 if the connection is over or the client was refused.
  Awaitable<std::size_t> read_head();
  Awaitable<bool> read_body(Request& request, std::int64_t length);
  /// The handler's response; nothing if the client has left meanwhile. Sets `gone` then, and when the response does
  /// not come in time. `takes_interim`: the client understands responses of class 1xx.
  Awaitable<std::optional<Response>> answer(std::shared_ptr<const Request> request, Dispatcher::Admission admission,
                                            bool takes_interim);
  /// The events of `wanted`, and errors, that poll() reports of the socket at once.
  short events_now(short wanted);
  /// Whether the connection was reset, or closed here.
  bool hung_up();
  /// Whether the client no longer waits for an answer. `probed`: whether an interim response was sent to find out.
  Awaitable<bool> client_left(bool takes_interim, bool& probed);
  Awaitable<void> refuse(int status, std::string code, std::string detail);

  /// A response being sent.
  struct Outgoing {
    std::string head;
    std::string_view text;  // the body if it is a text; points into the response
    std::size_t sent = 0;   // bytes of head and text
    bool whole = false;     // everything was sent
    bool reusable = false;  // the connection can be used again
  };
  /// Makes the head and sends what the socket takes at once, which for most responses is everything.
  Outgoing begin_write(const Request& request, Response& response);
  /// Sends the rest. The events of a stream are left to write_events().
  Awaitable<void> write_rest(const Request& request, Response& response, const Outgoing& out);
  Awaitable<void> write_file(const FileSlice& slice);
  Awaitable<void> write_pieces(std::shared_ptr<Producer> producer, bool chunked);
  Awaitable<void> write_events();
  Awaitable<void> write_all(std::string_view first, std::string_view second);
  Awaitable<std::string> next_piece(std::shared_ptr<Producer> producer);

  Awaitable<void> write_encrypted(const FileSlice& slice);
  /// Sends what the socket takes of both without waiting, and returns how much; nothing over TLS. Throws system_error
  /// if the connection is broken.
  std::size_t send_now(std::string_view first, std::string_view second);

  /// Cancels what the session waits for, and sets timed_out_, unless another deadline is set before this one passes.
  /// The timer itself is only moved if it would fire too late.
  void set_deadline(std::chrono::milliseconds limit);
  void clear_deadline() { due_ = std::chrono::steady_clock::time_point::max(); }
  void wait_until(std::chrono::steady_clock::time_point time);
  void close();

  Transport transport_;
  asio::ip::tcp::socket& socket_;  // transport_'s
  asio::steady_timer deadline_, ready_;
  std::chrono::steady_clock::time_point due_ = std::chrono::steady_clock::time_point::max();
  std::chrono::steady_clock::time_point wakes_ = std::chrono::steady_clock::time_point::max();  // deadline_'s
  const Dispatcher& dispatcher_;
  const Limits& limits_;
  Connections& connections_;
  const std::string address_;
  std::string buffer_;
  std::shared_ptr<EventSource> events_;      // of an event stream
  std::shared_ptr<const Caller> listener_;   // who receives it
  std::shared_ptr<std::atomic<bool>> gone_;  // of the request that is being answered
  std::size_t served_ = 0;
  std::int64_t sent_bytes_ = 0;
  bool finishing_ = false, interruptible_ = false, timed_out_ = false;
  bool woken_ = false, reader_left_ = false;
};

}  // namespace babelring::http

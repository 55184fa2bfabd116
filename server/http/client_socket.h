#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "server/http/connections.h"
#include "server/http/limits.h"
#include "server/http/message.h"

namespace babelring::http {

/// A connection with or without TLS. Models AsyncReadStream and AsyncWriteStream. Not thread-safe.
class Transport {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Code = boost::system::error_code;
  using executor_type = Socket::executor_type;

  /// `tls`: null for a connection without TLS.
  Transport(Socket socket, boost::asio::ssl::context* tls) : socket_(std::move(socket)) {
    if (tls != nullptr) tls_ = std::make_unique<Tls>(socket_, *tls);
  }
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  executor_type get_executor() { return socket_.get_executor(); }
  /// The underlying socket. Do not read from or write to it directly.
  Socket& socket() { return socket_; }
  bool encrypted() const { return tls_ != nullptr; }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(Code, std::size_t)>(
        [this](auto handler, const Buffers& where) {
          if (tls_) {
            tls_->async_read_some(where, std::move(handler));
          } else {
            socket_.async_read_some(where, std::move(handler));
          }
        },
        token, buffers);
  }

  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, void(Code, std::size_t)>(
        [this](auto handler, const Buffers& what) {
          if (tls_) {
            tls_->async_write_some(what, std::move(handler));
          } else {
            socket_.async_write_some(what, std::move(handler));
          }
        },
        token, buffers);
  }

  /// Requires encrypted().
  template <class Token>
  auto async_handshake(Token&& token) {
    return tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Token>(token));
  }
  /// Sends close_notify. Requires encrypted().
  template <class Token>
  auto async_shutdown(Token&& token) {
    return tls_->async_shutdown(std::forward<Token>(token));
  }

 private:
  using Tls = boost::asio::ssl::stream<Socket&>;
  Socket socket_;
  std::unique_ptr<Tls> tls_;
};

/// The socket of a connection with its deadline: reads and writes fail once the deadline has passed. All
/// functions run on the one thread of the socket's context.
class ClientSocket {
 public:
  using Clock = std::chrono::steady_clock;
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;

  /// `tls`: null for a connection without TLS. `activity` shows other threads when the client takes no bytes.
  ClientSocket(Transport::Socket socket, boost::asio::ssl::context* tls, const Limits& limits, Activity& activity);
  /// The object that contains this one. Timers do nothing once it is gone. Call it before any other function.
  void set_owner(std::weak_ptr<const void> owner) { owner_ = std::move(owner); }

  Transport& transport() { return transport_; }
  Transport::Socket& socket() { return socket_; }
  Activity& activity() { return activity_; }
  bool encrypted() const { return transport_.encrypted(); }

  /// Ends the operation in progress after `limit`, unless another deadline is set before. timed_out() is true then. If
  /// no other deadline follows soon, the connection is closed, because data that keeps coming leaves nothing to end.
  void set_deadline(std::chrono::milliseconds limit);
  void clear_deadline();
  bool timed_out() const { return timed_out_; }
  Clock::time_point due() const { return due_; }

  /// Sends both texts without waiting, as far as the socket takes them. Returns the number of bytes; 0 over TLS. Throws
  /// system_error if the connection is broken.
  std::size_t send_now(std::string_view first, std::string_view second);
  /// Sends both texts. Throws system_error if the client is slower than the limits allow or the connection is broken.
  Awaitable<void> write(std::string_view first, std::string_view second = {});
  /// Sends a range of a file as write() does. Throws system_error too if the file has become shorter.
  Awaitable<void> write(const FileSlice& slice);
  /// Total bytes sent.
  const std::int64_t& sent_bytes() const { return sent_bytes_; }

  /// Waits for `limit`. Returns false if wake(), the deadline or close() ended the wait.
  Awaitable<bool> sleep(Clock::duration limit);
  void wake() { sleep_.cancel(); }

  /// True if the connection was reset, or closed here.
  bool hung_up();
  /// True if the client has closed its side: it sends nothing more, but may still read.
  bool half_closed();

  /// While interruptible, finish() closes the connection at once.
  void set_interruptible(bool interruptible) { interruptible_ = interruptible; }
  /// The server is stopping: the connection ends after the response in progress.
  void finish();
  bool finishing() const { return finishing_; }
  void close();
  /// Cancels the deadline for good and closes the connection.
  void shut_down();

 private:
  void wait_until(Clock::time_point time);
  void on_deadline();
  /// Begins to send: the client must keep up limits.write_bytes_a_second over each limits.write_stall.
  void begin_sending();
  void count_sent(std::size_t bytes);
  Awaitable<void> write_encrypted(const FileSlice& slice);
  short poll_events(short wanted);

  Transport transport_;
  Transport::Socket& socket_;  // of transport_
  const Limits& limits_;
  Activity& activity_;
  std::weak_ptr<const void> owner_;
  boost::asio::steady_timer deadline_, sleep_;
  Clock::time_point due_ = Clock::time_point::max();
  Clock::time_point wakes_ = Clock::time_point::max();  // expiry of deadline_, which moves only forward
  bool overdue_ = false;                                // the deadline has passed, and the connection will be closed
  bool timed_out_ = false, finishing_ = false, interruptible_ = false;
  std::size_t taken_ = 0;  // bytes sent since begin_sending()
  std::int64_t sent_bytes_ = 0;
};

/// Memory for bytes that are read and dropped, of the calling thread.
boost::asio::mutable_buffer scrap_buffer();

}  // namespace babelring::http

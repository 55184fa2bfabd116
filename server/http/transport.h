#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <utility>

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

}  // namespace babelring::http

#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "server/http/client_socket.h"

namespace babelring::http {

/// A ClientSocket on one end of a TCP connection. The test is the client on the other end.
class SocketFixture : public ::testing::Test {
 protected:
  using Tcp = boost::asio::ip::tcp;

  SocketFixture() {
    Tcp::acceptor acceptor(context_, Tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    client_.connect(acceptor.local_endpoint());
    socket_ = std::make_shared<ClientSocket>(acceptor.accept(), nullptr, limits_, activity_);
    socket_->set_owner(socket_);
  }

  void send(const std::string& text) { boost::asio::write(client_, boost::asio::buffer(text)); }

  /// Runs the coroutine to its end on the socket's thread. Rethrows its exception.
  void run(std::function<ClientSocket::Awaitable<void>()> coroutine) {
    std::exception_ptr failure;
    boost::asio::co_spawn(context_, std::move(coroutine), [&](std::exception_ptr thrown) {
      failure = std::move(thrown);
      socket_->clear_deadline();
      socket_->shut_down();
    });
    context_.restart();
    context_.run();
    if (failure) std::rethrow_exception(failure);
  }

  /// Everything that the client receives until the connection ends. Call it before run(), which ends it.
  std::future<std::string> received() {
    return std::async(std::launch::async, [this] {
      std::string text;
      boost::system::error_code code;
      boost::asio::read(client_, boost::asio::dynamic_buffer(text), code);
      return text;
    });
  }

  boost::asio::io_context context_, client_context_;
  Limits limits_;
  Activity activity_;
  Tcp::socket client_{client_context_};
  std::shared_ptr<ClientSocket> socket_;
};

}  // namespace babelring::http

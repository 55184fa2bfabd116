#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/client_socket.h"
#include "server/http/dispatcher.h"
#include "server/http/message.h"
#include "server/http/reply.h"

namespace babelring::http {

/// A one-shot channel from any thread to a coroutine. The coroutine may destroy the Arrival before the value is sent. A
/// later value is then dropped without touching the coroutine's executor, which may no longer exist.
template <class T>
class Arrival {
 public:
  explicit Arrival(const boost::asio::any_io_executor& executor)
      : timer_(executor), state_(std::make_shared<State>(&timer_)) {}
  ~Arrival() {
    const std::lock_guard lock(state_->mutex);
    state_->timer = nullptr;
  }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  /// Returns a function that sends the value. It may be called from any thread; only the first value counts.
  auto sender() const {
    return [state = state_](T value) { send(state, std::move(value)); };
  }

  /// Waits up to `limit`. Returns true if the value has arrived.
  boost::asio::awaitable<bool> wait(std::chrono::steady_clock::duration limit) {
    namespace asio = boost::asio;
    if (arrived()) co_return true;
    timer_.expires_after(limit);
    boost::system::error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    co_return arrived();
  }

  /// Moves the value out. Requires that wait() returned true.
  T take() {
    const std::lock_guard lock(state_->mutex);
    return std::move(*state_->value);
  }

 private:
  struct State {
    explicit State(boost::asio::steady_timer* waiting) : timer(waiting) {}
    std::mutex mutex;
    boost::asio::steady_timer* timer;  // null once the Arrival is destroyed; cancelled only on its executor's thread
    std::optional<T> value;
  };

  static void send(const std::shared_ptr<State>& state, T value) {
    const std::lock_guard lock(state->mutex);
    if (state->timer == nullptr || state->value) return;
    state->value.emplace(std::move(value));
    boost::asio::post(state->timer->get_executor(), [state] {
      const std::lock_guard again(state->mutex);
      if (state->timer != nullptr) state->timer->cancel();
    });
  }

  bool arrived() const {
    const std::lock_guard lock(state_->mutex);
    return state_->value.has_value();
  }

  boost::asio::steady_timer timer_;
  std::shared_ptr<State> state_;
};

/// Framing of a response. With neither a length nor chunked encoding, the end of the connection ends the body.
struct BodyFraming {
  std::optional<std::int64_t> length;  // Content-Length
  bool chunked = false;                // Transfer-Encoding: chunked
  bool close = false;                  // Connection: close
  bool strict_transport = false;       // Strict-Transport-Security
};

/// Serializes the response head: status line, Date, the response's headers, framing, request id, the standard security
/// headers, and the empty line.
std::string response_head(const Response& response, const BodyFraming& framing, const std::string& request_id);

/// Sends responses over a connection: head, then a body of any kind but an event stream. References must outlive it.
/// Used on the socket's thread.
class ResponseWriter {
 public:
  /// `strict_transport`: tells browsers to use https only (HSTS).
  ResponseWriter(ClientSocket& client, const Dispatcher& dispatcher, std::chrono::milliseconds max_chunk_time,
                 bool strict_transport)
      : client_(client),
        dispatcher_(dispatcher),
        max_chunk_time_(max_chunk_time),
        strict_transport_(strict_transport) {}

  /// A response being sent.
  struct Outgoing {
    std::string head;
    std::string_view text;  // the body if it is a text; points into the response
    std::size_t sent = 0;   // bytes of head and text
    bool whole = false;     // everything was sent
    bool reusable = false;  // another request may follow on the connection
  };
  /// Makes the head and sends what the socket takes at once, which for most responses is everything. Adds the request's
  /// answer_headers to the response, and drops the body of a response that must have none. The response must outlive
  /// the result. Throws system_error if the connection is broken.
  Outgoing begin(const Request& request, Response& response);
  /// Sends the rest, except for the events of an event stream. Chunks of a BodyStream are made in the query lane.
  /// Throws system_error if the client is too slow or the connection is broken, and what BodyStream::next() throws.
  ClientSocket::Awaitable<void> finish(const Request& request, const Response& response, const Outgoing& out);

  /// Sends a problem in answer to bytes that are no valid request. The connection must be closed after it.
  ClientSocket::Awaitable<void> refuse(const Problem& problem);

 private:
  ClientSocket::Awaitable<void> write_stream(const Request& request, std::shared_ptr<BodyStream> stream);
  ClientSocket::Awaitable<std::string> next_chunk(const Request& request, std::shared_ptr<BodyStream> stream);

  ClientSocket& client_;
  const Dispatcher& dispatcher_;
  const std::chrono::milliseconds max_chunk_time_;
  const bool strict_transport_;
};

}  // namespace babelring::http

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

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

}  // namespace babelring::http

#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>

namespace babelring::http {

struct Response;

/// Delivers the response to one request. Copies refer to the same request: the first call delivers, from any thread,
/// and later calls do nothing. A call that throws has not delivered, and may be repeated.
class Reply {
 public:
  using Deliver = std::function<void(Response)>;

  explicit Reply(Deliver deliver) : Reply(std::move(deliver), nullptr) {}
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Reply> && std::invocable<F&, Response>)
  Reply(F deliver) : Reply(Deliver(std::move(deliver)), nullptr) {}  // NOLINT: a lambda is a reply

  /// A reply that cannot get lost: if its last copy is destroyed without a call, the result of `lost` is delivered.
  static Reply required(Deliver deliver, std::function<Response()> lost) {
    return {std::move(deliver), std::move(lost)};
  }

  void operator()(Response response) const;

 private:
  Reply(Deliver deliver, std::function<Response()> lost);
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace babelring::http

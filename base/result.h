#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/failure.h"

namespace babelring {

/// Why something did not succeed, where the caller goes on: one line for a person.
struct Error {
  std::string message;
};

/// A value or an Error, for outcomes the caller handles: what a user wrote, something absent, a conflict, a damaged
/// file with an older sibling. Where the work cannot go on, throw Failure instead.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: `return value;`
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: `return Error{...};`

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// The value. Throws Failure with the error's message if there is none.
  T& value() & {
    require();
    return std::get<0>(state_);
  }
  const T& value() const& {
    require();
    return std::get<0>(state_);
  }
  T&& value() && {
    require();
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// The error's message. Only when !ok().
  const std::string& message() const { return std::get<1>(state_).message; }

 private:
  void require() const {
    if (!ok()) throw Failure(message());
  }
  std::variant<T, Error> state_;
};

/// Success without a value.
struct Done {};

}  // namespace babelring

#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/failure.h"

namespace babelring {

/// The reason for a recoverable error: one readable line.
struct Error {
  std::string message;
};

/// A value or an Error. For errors that the caller handles: user input, an absent object, a conflict, a damaged file
/// with an older copy. Throw Failure for errors that end the operation.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: `return value;`
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: `return Error{...};`

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// The value. Throws Failure with the error's message if !ok().
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

  /// The error's message. Requires !ok().
  const std::string& message() const { return std::get<1>(state_).message; }

 private:
  void require() const {
    if (!ok()) throw Failure(message());
  }
  std::variant<T, Error> state_;
};

/// The value type of a Result that carries no value.
struct Done {};

}  // namespace babelring

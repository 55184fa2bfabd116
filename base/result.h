#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace babelring {

/// The reason for a recoverable error: one readable line.
struct Error {
  std::string message;
  /// Throws Failure with the message. Not inline: CUDA sources include this header, and nvcc refuses fmt, which
  /// Failure's header includes.
  [[noreturn]] void raise() const;
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

  /// The value. Throws Failure with error() if !ok().
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

  /// The reason for the error. Requires !ok().
  const std::string& error() const { return std::get<1>(state_).message; }

 private:
  void require() const {
    if (!ok()) std::get<1>(state_).raise();
  }
  std::variant<T, Error> state_;
};

/// Success, or an Error. `return {};` means success.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: `return Error{...};`

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  /// Throws Failure with error() if !ok().
  void value() const {
    if (!ok()) error_->raise();
  }
  /// The reason for the error. Requires !ok().
  const std::string& error() const { return error_->message; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace babelring

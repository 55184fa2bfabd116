#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace babelring {

/// An unrecoverable error. The message is one line: operation, object, found value, expected value.
/// Caught only in `main`, in the HTTP dispatcher and at the top of each thread.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Invalid user input (option, configuration, command line). Programs exit with code 2 instead of 1.
class UsageFailure : public Failure {
 public:
  using Failure::Failure;
};

/// Throws Failure with a formatted message.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace babelring

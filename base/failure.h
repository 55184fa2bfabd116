#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace babelring {

/// Work cannot go on. The message names the operation, the object, what was found and what was expected, in one line.
/// Caught at four places only: `main`, the HTTP dispatcher, and each thread's top.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the user wrote is wrong (option, configuration, command line): programs exit with 2 instead of 1.
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

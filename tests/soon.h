#pragma once

#include <chrono>
#include <thread>

namespace babelring {

/// How long a test waits for what is sure to come: longer than any machine is held up.
inline constexpr std::chrono::seconds patience{60};

/// Whether it comes true within `patience`.
template <class Condition>
bool soon(Condition condition) {
  for (const auto end = std::chrono::steady_clock::now() + patience; std::chrono::steady_clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

}  // namespace babelring

#pragma once

#include <chrono>
#include <thread>

namespace babelring {

/// Timeout for events that must happen: longer than any machine stalls.
inline constexpr std::chrono::seconds longest_wait{60};

/// True if the condition becomes true within `longest_wait`.
template <class Condition>
bool soon(Condition condition) {
  for (const auto end = std::chrono::steady_clock::now() + longest_wait; std::chrono::steady_clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

}  // namespace babelring

#pragma once

namespace babelring {

/// Waits for times that add up. Times below 0.1 ms are collected, and a wait that takes too long shortens the next
/// ones, so the sum is right to 0.1 ms.
class Waiting {
 public:
  /// Waits if at least 0.1 ms are due.
  void add(double ms);
  /// Waits for all that is due.
  void finish();

 private:
  double due_ms_ = 0;  // negative: waited too long
};

}  // namespace babelring

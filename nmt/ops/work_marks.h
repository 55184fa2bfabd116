#pragma once

#include <cstddef>

namespace babelring {

/// Numbered marks, from 0, in the sequence of a device's work; each may be recorded again and again. Nothing here
/// waits.
class WorkMarks {
 public:
  virtual ~WorkMarks() = default;
  /// Puts the mark behind all work given so far.
  virtual void record(std::size_t mark) = 0;
  /// Whether the device has got there.
  virtual bool reached(std::size_t mark) = 0;
  /// Device time from one mark to a later one. Both must have been reached.
  virtual double between_ms(std::size_t first, std::size_t second) = 0;
};

}  // namespace babelring

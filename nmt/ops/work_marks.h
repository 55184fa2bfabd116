#pragma once

#include <cstddef>

namespace babelring {

/// Points in the order of a device's work, by number from 0; each may be recorded again and again. Nothing here waits.
class WorkMarks {
 public:
  virtual ~WorkMarks() = default;
  /// The mark is now where the work given so far ends.
  virtual void record(std::size_t mark) = 0;
  /// Whether the device has come to it.
  virtual bool reached(std::size_t mark) = 0;
  /// Milliseconds of the device's from one mark to a later one; it has come to both.
  virtual double between_ms(std::size_t first, std::size_t second) = 0;
};

}  // namespace babelring

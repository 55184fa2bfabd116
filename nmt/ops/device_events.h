#pragma once

#include <cstddef>

namespace babelring {

/// Numbered marks, from 0, in a device's sequence of work. Each may be recorded repeatedly. No function waits.
class DeviceEvents {
 public:
  virtual ~DeviceEvents() = default;
  /// Records the mark after all work submitted so far.
  virtual void record(std::size_t mark) = 0;
  /// True if the device has completed all work before the mark.
  virtual bool reached(std::size_t mark) = 0;
  /// Device time between two marks in ms. Both must have been reached.
  virtual double between_ms(std::size_t first, std::size_t second) = 0;
};

}  // namespace babelring

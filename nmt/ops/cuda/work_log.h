#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace babelring::cuda {

/// While active, receives work as words in place of the device: kernels with their grids and arguments, matmuls, sorts.
/// Passes with equal words perform the same operations on the same memory, except for the contents of RepeatValues.
class WorkLog {
 public:
  using Words = std::vector<std::int64_t>;

  bool active() const { return active_; }
  void begin() {
    words_.clear();
    active_ = true;
  }
  Words end() {
    active_ = false;
    return std::exchange(words_, {});
  }
  /// Appends a value. Padding between its members is ignored.
  template <class Value>
  void add(Value value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    if constexpr (std::is_class_v<Value>) __builtin_clear_padding(&value);
    std::array<std::int64_t, (sizeof(Value) + sizeof(std::int64_t) - 1) / sizeof(std::int64_t)> words{};
    std::memcpy(words.data(), &value, sizeof(Value));
    words_.insert(words_.end(), words.begin(), words.end());
  }

 private:
  bool active_ = false;
  Words words_;
};

/// A stream whose work goes to a WorkLog while the log is active.
class WorkStream {
 public:
  /// Both must outlive the object. With a null log, all work goes to the stream. `overlaps`: see overlaps().
  WorkStream(cudaStream_t stream, WorkLog* log = nullptr, bool overlaps = false)
      : stream_(stream), log_(log), overlaps_(overlaps) {}

  cudaStream_t handle() const { return stream_; }
  /// Whether blocks of a kernel may start before the previous kernel has ended (programmatic dependent launch; compute
  /// capability 9.0 or newer). Each kernel then waits in await_earlier_kernels().
  bool overlaps() const { return overlaps_; }
  /// The active log; null if work goes to the stream.
  WorkLog* log() const { return log_ != nullptr && log_->active() ? log_ : nullptr; }

 private:
  cudaStream_t stream_;
  WorkLog* log_;
  bool overlaps_;
};

}  // namespace babelring::cuda

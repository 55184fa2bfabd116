#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

/// Attention by cuDNN's own kernels, without dropout: cuDNN draws bits of its own, which nothing else could repeat.
/// The library is opened at run time. Builds without its headers have cudnn_absent.cc in place of all that sees them.
namespace babelring::cuda {

/// What attention reads and writes: rows of tokens, sentence by sentence.
enum class Packed : std::size_t { q, k, v, out, log_sum_exp, dout, dq, dk, dv };
/// Something for each of them.
template <class T>
struct OfPacked : std::array<T, 9> {
  T& of(Packed tensor) { return (*this)[static_cast<std::size_t>(tensor)]; }
  const T& of(Packed tensor) const { return (*this)[static_cast<std::size_t>(tensor)]; }
};

/// What a plan is made for: up to `sentences` sentences of up to `length` queries and keys each.
struct CudnnShape {
  bool backward = false, causal = false;
  std::int64_t sentences = 0, length = 0, heads = 0, head_width = 0;
  OfPacked<std::int64_t> strides{};  // elements from row to row; 0 for what is not used
  auto operator<=>(const CudnnShape&) const = default;
};

/// What one run works on, on the device.
struct CudnnOperands {
  OfPacked<void*> rows{};                       // the first row of each that is used
  OfPacked<const std::int32_t*> starts{};       // [sentences + 1] for each: where sentences begin, in elements
  const std::int32_t* query_lengths = nullptr;  // [sentences]
  const std::int32_t* key_lengths = nullptr;
  float scale = 1;
  void* workspace = nullptr;  // of the plan's size
};

/// The GPU that plans are made for.
struct CudnnDevice {
  int capability = 0;       // 90: compute capability 9.0
  std::string description;  // in cuDNN's JSON, for plans that are not run; empty: the device now current
};

/// Whether there is a plan for a shape.
struct CudnnSupport {
  std::int64_t workspace_bytes = -1;
  std::string why_not;  // in one line; empty: there is one
};

/// cuDNN's plans, made once for a shape (which takes about a second) and kept. Those of the backward are the ones that
/// repeat bit by bit: gradients of scores go through memory, two bytes each. Not thread-safe.
class CudnnPlans {
 public:
  explicit CudnnPlans(CudnnDevice device, const std::string& library = "libcudnn.so.9");
  ~CudnnPlans();

  /// "cuDNN 9.19.0", or "no cuDNN: " and why it is not used: the library is not there or too old, or not for this GPU.
  std::string description() const;
  /// Makes the plan if there is none yet.
  const CudnnSupport& find(const CudnnShape& shape);
  /// Of a shape that find() has a plan for, on a stream (cudaStream_t). Throws Failure if it cannot be launched.
  void run(const CudnnShape& shape, const CudnnOperands& operands, void* stream);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace babelring::cuda

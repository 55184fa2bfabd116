#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

/// Attention by cuDNN's kernels, without dropout, because nothing else could repeat cuDNN's random bits. The library is
/// opened at run time. Builds without its headers use cudnn_absent.cc in place of the sources that include them.
namespace babelring::cuda {

/// The packed operands of attention: a row for each token, sentence after sentence.
enum class Packed : std::size_t { q, k, v, out, log_sum_exp, dout, dq, dk, dv };
/// A value for each packed operand.
template <class T>
struct OfPacked : std::array<T, 9> {
  T& of(Packed tensor) { return (*this)[static_cast<std::size_t>(tensor)]; }
  const T& of(Packed tensor) const { return (*this)[static_cast<std::size_t>(tensor)]; }
};

/// The key of a plan, which computes up to `sentences` sentences of up to `length` queries and keys each.
struct CudnnShape {
  bool backward = false, causal = false;
  std::int64_t sentences = 0, length = 0, heads = 0, head_width = 0;
  OfPacked<std::int64_t> strides{};  // elements from row to row; 0 for unused operands
  auto operator<=>(const CudnnShape&) const = default;
};

/// The operands of one run, in device memory.
struct CudnnOperands {
  OfPacked<void*> rows{};                       // the first row of each operand in use
  OfPacked<const std::int32_t*> starts{};       // [sentences + 1] for each: the first element of each sentence
  const std::int32_t* query_lengths = nullptr;  // [sentences]
  const std::int32_t* key_lengths = nullptr;
  float scale = 1;
  void* workspace = nullptr;  // CudnnPlans::workspace_bytes() bytes
};

/// The GPU that plans are made for.
struct CudnnDevice {
  int capability = 0;       // 90: compute capability 9.0
  std::string description;  // cuDNN's JSON, for plans that are never run; empty: the current device
};

/// The cuDNN plans made so far. A plan is made once for each shape, which takes about a second. Backward plans give the
/// same bits every time: gradients of scores go through memory, two bytes each. Not thread-safe.
class CudnnPlans {
 public:
  explicit CudnnPlans(CudnnDevice device, const std::string& library = "libcudnn.so.9");
  ~CudnnPlans();

  /// "cuDNN 9.19.0", or "no cuDNN: " and the reason: the library is absent, too old or not for this GPU.
  std::string description() const;
  /// The size of the workspace that run() needs for the shape. Makes the plan on the first call. The Error says in one
  /// line why there is no plan.
  const Result<std::int64_t>& workspace_bytes(const CudnnShape& shape);
  /// Runs a plan for which workspace_bytes() has a value, on a stream (cudaStream_t). Throws Failure if it cannot be
  /// launched.
  void run(const CudnnShape& shape, const CudnnOperands& operands, void* stream);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace babelring::cuda

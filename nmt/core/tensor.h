#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace babelring {

enum class DType : std::uint8_t { f32, bf16, i32, int8 };

constexpr std::size_t size_of(DType type) {
  if (type == DType::int8) return 1;
  return type == DType::bf16 ? 2 : 4;
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::i32:
      return "i32";
    case DType::int8:
      return "int8";
  }
  return "?";
}

/// bfloat16: the upper 16 bits of an f32 (1 sign, 8 exponent and 7 fraction bits). Storage only; convert to float to
/// compute.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN.
  explicit BFloat16(float value) {
    const auto raw = std::bit_cast<std::uint32_t>(value);
    const bool nan = (raw & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<std::uint16_t>((raw >> 16) | 0x40u)
               : static_cast<std::uint16_t>((raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::int8;

/// Up to four extents, outermost first.
class Shape {
 public:
  static constexpr int max_rank = 4;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  /// Product of the extents; 1 for rank 0.
  std::int64_t elements() const;
  bool operator==(const Shape&) const = default;
  /// "[64, 512]".
  std::string text() const;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

/// A read-only, non-owning view of row-major elements. Must not outlive its Buffer or Arena. A default-constructed view
/// is null. Each row (last extent) is contiguous. `row_stride` is the distance between rows in elements; it equals the
/// last extent unless the view was made by column_slice(). Only 2-D views may be strided.
struct ConstTensor {
  const void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;

  ConstTensor() = default;
  ConstTensor(const void* elements, Shape extents, DType type);

  explicit operator bool() const { return data != nullptr; }
  std::int64_t rows() const { return shape.rank() == 0 ? 1 : shape.elements() / (columns() == 0 ? 1 : columns()); }
  std::int64_t columns() const { return shape.rank() == 0 ? 1 : shape[shape.rank() - 1]; }
  bool contiguous() const { return row_stride == columns() || rows() <= 1; }
  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }

  /// Columns [first, first + count) of a 2-D view.
  ConstTensor column_slice(std::int64_t first, std::int64_t count) const;
  /// Rows [first, first + count) of a 1-D or 2-D view.
  ConstTensor row_slice(std::int64_t first, std::int64_t count) const;
};

/// A writable, non-owning view. Otherwise like ConstTensor.
struct Tensor {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;

  Tensor() = default;
  Tensor(void* elements, Shape extents, DType type);
  operator ConstTensor() const;  // NOLINT: a writable view is a readable one

  explicit operator bool() const { return data != nullptr; }
  std::int64_t rows() const { return ConstTensor(*this).rows(); }
  std::int64_t columns() const { return ConstTensor(*this).columns(); }
  bool contiguous() const { return ConstTensor(*this).contiguous(); }
  std::size_t bytes() const { return ConstTensor(*this).bytes(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }

  Tensor column_slice(std::int64_t first, std::int64_t count) const;
  Tensor row_slice(std::int64_t first, std::int64_t count) const;
};

/// A weight [out, in] in 8 bits an element, non-owning: element (i, k) is about scales[i] * q(i, k) with q from -127 to
/// 127, see quantize(). It lies as matmuls read it: in panels of 64 outputs, a panel in steps of 4 inputs, and a step
/// holds the 4 elements of each output side by side. Outputs and inputs beyond the weight's are 0.
struct QuantizedWeight {
  static constexpr std::int64_t panel_outputs = 64, step_inputs = 4;

  Shape shape;           // [out, in]
  ConstTensor elements;  // [panels, steps, 64, 4] int8
  ConstTensor scales;    // [panels * 64] f32
  ConstTensor sums;      // [panels * 64] i32: of each output's q

  explicit operator bool() const { return static_cast<bool>(elements); }
  std::int64_t panels() const { return (shape[0] + panel_outputs - 1) / panel_outputs; }
  std::int64_t steps() const { return (shape[1] + step_inputs - 1) / step_inputs; }
  Shape elements_shape() const { return {panels(), steps(), panel_outputs, step_inputs}; }
  /// How far from an output's q(output, 0) its q(output, input) is in `elements`.
  static constexpr std::int64_t distance(std::int64_t input) {
    return input / step_inputs * panel_outputs * step_inputs + input % step_inputs;
  }
  /// Where q(output, input) is in `elements`.
  std::int64_t place(std::int64_t output, std::int64_t input) const {
    const std::int64_t panel = output / panel_outputs * steps() * panel_outputs;
    return (panel + output % panel_outputs) * step_inputs + distance(input);
  }
};

/// Total size of all non-null tensors: a lower bound on the bytes that an op reads and writes.
double total_bytes(std::initializer_list<ConstTensor> tensors);

}  // namespace babelring

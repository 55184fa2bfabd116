#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/gradient_sums.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// Bytes of a message of `count` elements.
std::int64_t wire_bytes(GradientWire wire, std::int64_t count);
/// The number of elements of a message of at most `bytes` bytes; int8: of whole blocks.
std::int64_t elements_in_message(GradientWire wire, std::int64_t bytes);

/// Rounds `count` values into a message of wire_bytes(), which must not overlap. `errors` is used by int8 only.
void encode(GradientWire wire, const float* values, float* errors, std::int64_t count, void* message);
/// Copies or adds the values of a message to `values`.
void decode(GradientWire wire, const void* message, std::int64_t count, float* values);
void decode_and_add(GradientWire wire, const void* message, std::int64_t count, float* values);

/// The order in which numbers from n ranks are added.
enum class AddOrder {
  any,   // fixed, but another one on each path: by ranks in shared memory, around a ring
  tree,  // in pairs: (0 + 1) + (2 + 3), and so on; n is a power of two
};

/// sum[i] += addend[i]. The ranges must not overlap.
void add_in_place(float* sum, const float* addend, std::int64_t count);
void add_in_place(float* sum, const BFloat16* addend, std::int64_t count);

/// Converts element by element; f32 to bf16 rounds to nearest, ties to even. The ranges must not overlap.
void convert(const float* from, BFloat16* to, std::int64_t count);
void convert(const BFloat16* from, float* to, std::int64_t count);

/// Sums elements [begin, begin + count) over all `parts`, in the order of `parts` or in a tree over them, and writes
/// the sums back to every part. The parts must not overlap.
void sum_into_all(const std::vector<float*>& parts, std::int64_t begin, std::int64_t count,
                  AddOrder order = AddOrder::any);
/// The same, but writes the sums to `target` only, which is one of the parts.
void sum_into_one(const std::vector<float*>& parts, float* target, std::int64_t begin, std::int64_t count,
                  AddOrder order = AddOrder::any);

/// Elements that share a scale.
inline constexpr std::int64_t int8_block = 256;

/// Bytes of a message of `count` elements: for each block, of which the last may be shorter, an f32 scale and then a
/// byte for each element.
constexpr std::int64_t int8_message_bytes(std::int64_t count) {
  return count + (count + int8_block - 1) / int8_block * std::int64_t{sizeof(float)};
}

/// Rounds v = values + errors to multiples q of a scale, |q| <= 127, and sets errors to v - q * scale. The scale of a
/// block is its largest |v| / 127, so the new |errors| are at most half of it. A block whose largest |v| is below 127
/// times the smallest normal number is sent as zeros; one with a value that is not finite is sent as NaN, and keeps its
/// errors. The ranges must not overlap.
void encode_int8(const float* values, float* errors, std::int64_t count, std::byte* message);
/// values = q * scale, or values += q * scale. The ranges must not overlap.
void decode_int8(const std::byte* message, std::int64_t count, float* values);
void decode_and_add_int8(const std::byte* message, std::int64_t count, float* values);

}  // namespace babelring

#pragma once

#include <cstdint>
#include <string_view>

namespace babelring {

/// Element type of gradients in messages. Each rank rounds the partial sum that it sends, the receiver adds it in f32,
/// and the final sum is rounded once more, by one rank: the others receive its message, so results are bit-equal. These
/// are n roundings for n ranks. Shared memory sends no messages and always sums in f32.
/// - bf16: half the bytes. Each rounding has an error of at most 2^-8 of the partial sum. To first order |error| <=
///   n 2^-8 (sum over ranks of |value|); the typical error grows with sqrt(n).
/// - int8: a quarter, in blocks of int8_block elements with one f32 scale (see encode_int8()). The error of each
///   rounding is at most 1/254 of the largest magnitude in the block. The rank that rounds keeps the error and adds it
///   to its values of the next sum (error feedback: Seide et al. 2014, "1-Bit Stochastic Gradient Descent"), so over
///   several sums only the last errors are missing. If a value of a block is not finite, its whole block becomes NaN.
enum class GradientWire { f32, bf16, int8 };

/// "f32", "bf16" or "int8".
std::string_view name_of(GradientWire wire);
/// Bytes of a message of `count` elements.
std::int64_t wire_bytes(GradientWire wire, std::int64_t count);
/// The number of elements of a message of at most `bytes` bytes; int8: of whole blocks.
std::int64_t elements_in_message(GradientWire wire, std::int64_t bytes);

/// Rounds `count` values into a message of wire_bytes(), which must not overlap. `errors` is used by int8 only.
void encode(GradientWire wire, const float* values, float* errors, std::int64_t count, void* message);
/// Copies or adds the values of a message to `values`.
void decode(GradientWire wire, const void* message, std::int64_t count, float* values);
void decode_and_add(GradientWire wire, const void* message, std::int64_t count, float* values);

}  // namespace babelring

#include "nmt/comm/gradient_wire.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "nmt/comm/add.h"
#include "nmt/comm/int8_blocks.h"

namespace babelring {

std::string_view name_of(GradientWire wire) {
  return std::array<std::string_view, 3>{"f32", "bf16", "int8"}.at(static_cast<std::size_t>(wire));
}

std::int64_t wire_bytes(GradientWire wire, std::int64_t count) {
  if (wire == GradientWire::int8) return int8_message_bytes(count);
  return count * (wire == GradientWire::bf16 ? 2 : 4);
}

std::int64_t elements_in_message(GradientWire wire, std::int64_t bytes) {
  if (wire == GradientWire::int8) return bytes / int8_message_bytes(int8_block) * int8_block;
  return bytes / wire_bytes(wire, 1);
}

void encode(GradientWire wire, const float* values, float* errors, std::int64_t count, void* message) {
  if (wire == GradientWire::int8) return encode_int8(values, errors, count, static_cast<std::byte*>(message));
  if (wire == GradientWire::bf16) return convert(values, static_cast<BFloat16*>(message), count);
  std::copy_n(values, count, static_cast<float*>(message));
}

void decode(GradientWire wire, const void* message, std::int64_t count, float* values) {
  if (wire == GradientWire::int8) return decode_int8(static_cast<const std::byte*>(message), count, values);
  if (wire == GradientWire::bf16) return convert(static_cast<const BFloat16*>(message), values, count);
  std::copy_n(static_cast<const float*>(message), count, values);
}

void decode_and_add(GradientWire wire, const void* message, std::int64_t count, float* values) {
  if (wire == GradientWire::int8) return decode_and_add_int8(static_cast<const std::byte*>(message), count, values);
  if (wire == GradientWire::bf16) return add_in_place(values, static_cast<const BFloat16*>(message), count);
  add_in_place(values, static_cast<const float*>(message), count);
}

}  // namespace babelring

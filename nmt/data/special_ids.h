#pragma once

#include <cstdint>

namespace babelring {

/// Ids that every vocabulary of this product gives to the same pieces. There is no padding piece: batches are packed.
inline constexpr std::int32_t unk_id = 0;
inline constexpr std::int32_t bos_id = 1;
inline constexpr std::int32_t eos_id = 2;
inline constexpr std::int32_t first_free_id = 3;

}  // namespace babelring

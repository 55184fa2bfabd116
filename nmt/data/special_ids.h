#pragma once

#include <cstdint>

namespace babelring {

/// Control ids of every vocabulary. There is no padding id, because batches are packed.
inline constexpr std::int32_t unk_id = 0;
inline constexpr std::int32_t bos_id = 1;
inline constexpr std::int32_t eos_id = 2;
inline constexpr std::int32_t first_free_id = 3;

}  // namespace babelring

#pragma once

#include <cstddef>

namespace babelring {

/// Bytes of a huge page on x86-64.
inline constexpr std::size_t huge_page = 2 << 20;

}  // namespace babelring

#pragma once

namespace babelring {
inline constexpr const char* version = "0.1.0";
}  // namespace babelring

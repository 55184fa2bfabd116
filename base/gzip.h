#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// Compresses a text to one gzip member at zlib level 1. Members may be concatenated. Throws Failure if memory is
/// short.
std::string gzip(std::string_view text);

}  // namespace babelring

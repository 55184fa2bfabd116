#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// The bytes that lower-case hexadecimal digits stand for, in base64 with padding (RFC 4648).
std::string base64_of_hex(std::string_view hex);

}  // namespace babelring

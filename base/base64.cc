#include "base/base64.h"

namespace babelring {

std::string base64_of_hex(std::string_view hex) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  unsigned bits = 0, count = 0;
  for (const char c : hex) {
    bits = bits << 4 | static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
    count += 4;
    if (count < 6) continue;
    count -= 6;
    text += digits[bits >> count & 63];
  }
  if (count > 0) text += digits[bits << (6 - count) & 63];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

}  // namespace babelring

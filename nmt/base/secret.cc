#include "nmt/base/secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <array>

#include "nmt/base/failure.h"

namespace babelring {

std::string make_secret() {
  std::array<unsigned char, 32> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) fail("secret: no random bytes to be had");
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  unsigned bits = 0, count = 0;
  for (const unsigned char byte : bytes) {
    bits = bits << 8 | byte;
    for (count += 8; count >= 6;) {
      count -= 6;
      text += digits[bits >> count & 63];
    }
  }
  return text += digits[bits << (6 - count) & 63];
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace babelring

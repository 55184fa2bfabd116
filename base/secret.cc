#include "base/secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/failure.h"
#include "base/text.h"

namespace babelring {
namespace {

constexpr std::array<std::string_view, 8> secret_names = {"token",  "access_token", "api_key", "apikey",
                                                          "secret", "password",     "passwd",  "authorization"};

bool is_token_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

/// True if `text` ends with the name of a secret query parameter, such as `?token` or `&token`.
bool ends_with_secret_name(std::string_view text) {
  constexpr std::size_t longest = 14;  // longest name plus separator; bounds the work per '='
  text.remove_prefix(text.size() - std::min(text.size(), longest));
  const auto start = text.find_last_of("?&;#");
  if (start == std::string_view::npos) return false;
  return std::find(secret_names.begin(), secret_names.end(), lower(text.substr(start + 1))) != secret_names.end();
}

}  // namespace

std::string make_secret() {
  std::array<unsigned char, 32> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) fail("secret: no random bytes available");
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

std::string redact(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(token_prefix)) {
      at += token_prefix.size();
      while (at < text.size() && is_token_character(text[at])) ++at;
      out += "[token]";
    } else if (text[at] == '=' && ends_with_secret_name(text.substr(0, at))) {
      while (at < text.size() && std::string_view("&;# \t\n\"'").find(text[at]) == std::string_view::npos) ++at;
      out += "=[hidden]";
    } else {
      out += text[at++];
    }
  }
  return out;
}

bool equal_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace babelring

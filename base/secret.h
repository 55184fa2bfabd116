#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// 256 random bits from the operating system as 43 characters of base64url. Throws Failure if the source fails.
std::string make_secret();

/// Prefix of all server tokens. Lets secret scanners recognize a leaked token.
inline constexpr std::string_view token_prefix = "bbr_";

/// Redacts a text for logs and the audit trail. Tokens become `[token]`. Values of query parameters named token,
/// access_token, api_key, apikey, secret, password, passwd or authorization become `[hidden]`.
std::string redact(std::string_view text);

/// Compares two secrets in constant time, independent of the position of a difference. Only their lengths may leak.
bool equal_constant_time(std::string_view a, std::string_view b);

}  // namespace babelring

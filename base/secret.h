#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// 256 bits from the system's source of randomness as 43 characters of base64url. Throws Failure if there are none.
std::string make_secret();

/// What every token of the server begins with, so that scanners for leaked secrets know one.
inline constexpr std::string_view token_mark = "bbr_";

/// The text with each token in it replaced by `[token]`, and the values of query parameters that are named like a
/// secret (token, access_token, api_key, password, secret, authorization) by `[hidden]`: for logs and the audit.
std::string without_secrets(std::string_view text);

/// Are the texts equal? Takes as long wherever they differ; only a difference in length shows.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace babelring

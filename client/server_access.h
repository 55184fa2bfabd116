#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "client/http_client.h"

namespace babelring {

/// A parsed server address: http://host:port/prefix or https://host:port/prefix.
struct ServerAddress {
  bool encrypted = false;
  std::string host, port;  // IPv6 without brackets
  std::string prefix;      // path prepended to every target, without a trailing slash

  /// "host:port", IPv6 in brackets. Without the scheme's own port, as browsers and other clients send it in Host and
  /// proxies compare it.
  std::string authority() const;
  /// The whole address as text.
  std::string text() const;
};

/// Parses an address. The default port is that of the scheme. Throws UsageFailure (found, expected).
ServerAddress parse_server_address(std::string_view text);

/// A server's address and the credentials for it.
struct ServerAccess {
  std::string address;              // http://host:port; empty: no server
  std::string token{};              // empty: none
  std::filesystem::path ca_file{};  // PEM file of trusted certificate authorities; empty: the system's
};

/// Combines the user's options with defaults for empty ones. Address: BABELRING_SERVER, otherwise
/// http://127.0.0.1:8080. Token: find_token(). CA file: BABELRING_CA_FILE. Throws UsageFailure like find_token().
ServerAccess find_server(const std::string& address, const std::filesystem::path& token_file,
                         const std::filesystem::path& ca_file = {});

/// Finds the token in this order: `token_file`, if not empty; BABELRING_TOKEN; the file babelring/token in
/// $XDG_CONFIG_HOME or ~/.config, if it exists; otherwise the token is empty. A file's first line is the token. Throws
/// UsageFailure if a file cannot be read or has no token.
std::string find_token(const std::filesystem::path& token_file);

/// HTTP client options with the token and CA file of `access`.
HttpClientOptions client_options(const ServerAccess& access,
                                 std::chrono::milliseconds timeout = std::chrono::milliseconds(10000));

}  // namespace babelring

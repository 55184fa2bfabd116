#pragma once

#include <string>
#include <string_view>

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

}  // namespace babelring

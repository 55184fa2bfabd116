#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// An address as users write it: http://host:port/prefix, https too.
struct ServerAddress {
  bool encrypted = false;
  std::string host, port;  // IPv6 without brackets
  std::string prefix;      // of every target; no slash at its end

  /// "host:port", IPv6 in brackets: for the Host header.
  std::string authority() const;
  /// The whole address again.
  std::string text() const;
};

/// Throws UsageFailure saying what was expected.
ServerAddress parse_server_address(std::string_view text);

}  // namespace babelring

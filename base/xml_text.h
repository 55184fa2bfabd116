#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// The text with &, <, > and " escaped, for the content and the quoted attribute values of HTML, SVG and XML.
inline std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace babelring

#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// `text` with ASCII letters in lower case.
inline std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return result;
}

}  // namespace babelring

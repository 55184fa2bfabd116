#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace babelring {

/// Why `text` is not fit to be a name that people read and programs print: it is not UTF-8, or has a control character,
/// a line or paragraph separator, or an invisible format character, such as those that turn the direction of what
/// follows (U+202E). One line that tells which character at which byte, from 0; nothing for other text in any script.
std::optional<std::string> name_fault(std::string_view text);

}  // namespace babelring

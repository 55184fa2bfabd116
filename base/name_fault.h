#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace babelring {

/// Checks that `text` is safe to display as a name. Returns nothing if it is, otherwise one line with the offending
/// character and its byte offset (from 0). Refused: invalid UTF-8, control characters, line and paragraph separators,
/// and invisible format characters such as U+202E, which reverses the direction of text. All scripts are allowed.
std::optional<std::string> name_fault(std::string_view text);

}  // namespace babelring

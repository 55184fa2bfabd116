#pragma once

#include <string_view>

#include "base/result.h"

namespace babelring {

/// Checks that `text` is safe to display as a name. The error names the offending character and its byte offset, from
/// 0. Refused: invalid UTF-8, control characters, line and paragraph separators,
/// and invisible format characters such as U+202E, which reverses the direction of text. All scripts are allowed.
Status check_name(std::string_view text);

}  // namespace babelring

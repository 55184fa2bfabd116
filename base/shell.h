#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// `text` in single quotes, as one word of a shell's command.
std::string shell_quoted(std::string_view text);

}  // namespace babelring

#pragma once

#include <string>

namespace babelring {

/// This machine's name as gethostname() gives it; "unknown" if it does not.
std::string host_name();

}  // namespace babelring

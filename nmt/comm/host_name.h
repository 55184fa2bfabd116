#pragma once

#include <string>

namespace babelring {

/// This machine's name from gethostname(); "unknown" if that fails.
std::string host_name();

}  // namespace babelring

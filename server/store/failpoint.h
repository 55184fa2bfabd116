#pragma once

#include <string_view>

namespace babelring::store {

/// Kills this process by SIGKILL when it is reached for the N-th time, if BABELRING_FAILPOINT is "NAME@N" with this
/// name. For tests of crashes; does nothing in programs built without tests. Thread-safe.
void failpoint(std::string_view name);

}  // namespace babelring::store

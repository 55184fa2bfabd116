#pragma once

#include <cstdint>
#include <functional>

namespace babelring {

/// Cuts [0, count) into contiguous parts and calls `work(first, last)` for each on its own thread. Rethrows the
/// exception of the first part that failed, after all have ended. Throws Failure unless threads >= 1.
void for_each_part(std::int64_t count, int threads,
                   const std::function<void(std::int64_t first, std::int64_t last)>& work);

}  // namespace babelring

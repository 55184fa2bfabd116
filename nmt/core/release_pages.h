#pragma once

#include <cstddef>

namespace babelring {

/// Gives the whole pages of [data, data + bytes), memory of the process or shared memory of the host's ranks, back to
/// the system. Their content is lost; they take memory again when they are next written.
void release_pages(void* data, std::size_t bytes);

}  // namespace babelring

#pragma once

#include <span>

#include "server/http/static_files.h"

namespace babelring {

/// The dashboard as it was built into this program, sorted by path.
std::span<const http::PageFile> page_files();

}  // namespace babelring

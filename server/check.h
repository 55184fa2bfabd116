#pragma once

#include "server/server_options.h"

namespace babelring {

/// Implements --check. Checks profiles, certificate, checkpoint roots and data folder, and prints one line for each to
/// standard output. Returns the exit code: 0 if the server would start, otherwise 1. Starts nothing and creates no
/// files.
int check_start(const ServerOptions& options);

}  // namespace babelring

#pragma once

#include "server/server_options.h"

namespace babelring {

/// Checks what a start with these options needs, and prints a line for each finding. Returns the exit code: 0 if the
/// start would succeed, else 1. Starts nothing; a data folder that is absent stays so.
int check_start(const ServerOptions& options);

}  // namespace babelring

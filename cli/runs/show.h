#pragma once

#include "cli/runs/screen.h"
#include "client/api_client.h"

namespace babelring {

/// Prints a run as lines "name  value". Omits absent members.
void print_run(const json::object& run, const Screen& screen);

}  // namespace babelring

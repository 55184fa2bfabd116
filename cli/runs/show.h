#pragma once

#include "cli/runs/screen.h"
#include "client/api_client.h"

namespace babelring {

/// One run in lines "name  value", for people; members that are absent are left out.
void print_run(const json::object& run, const Screen& screen);

}  // namespace babelring

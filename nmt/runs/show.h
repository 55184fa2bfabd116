#pragma once

#include "client/api_client.h"
#include "nmt/runs/screen.h"

namespace babelring {

/// One run in lines "name  value", for people; members that are absent are left out.
void print_run(const json::object& run, const Screen& screen);

}  // namespace babelring

#pragma once

#include <string>

#include "cli/runs/screen.h"
#include "client/server_access.h"

namespace babelring {

/// `nmt run watch`: prints progress until the run ends or Ctrl-C, which does not affect the run. With `as_json`, prints
/// a line per event instead: {"event":"metrics","data":{…}}. Throws Failure if the run ends other than by success or a
/// stop.
void watch_run(const ServerAccess& access, const std::string& run_id, bool as_json, const Screen& screen);

}  // namespace babelring

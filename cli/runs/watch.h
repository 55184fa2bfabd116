#pragma once

#include <string>

#include "cli/runs/screen.h"
#include "client/server_access.h"

namespace babelring {

/// `nmt run watch`: until the run has ended, or Ctrl-C, which leaves the run alone and says so. With `as_json` prints a
/// line for each event instead: {"event":"metrics","data":{…}}. Throws Failure saying how the run ended, where it did
/// neither succeed nor stop.
void watch_run(const ServerAccess& access, const std::string& run_id, bool as_json, const Screen& screen);

}  // namespace babelring

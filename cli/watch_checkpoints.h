#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "client/server_access.h"

namespace babelring {

/// The checkpoints of a run on a server that an evaluation on one set follows.
struct WatchedRun {
  ServerAccess access;
  std::string run;  // id, name or a unique prefix of either
  std::string set;  // an update with an evaluation on this set is not evaluated again
};

/// Calls `evaluate` for each checkpoint of the run that has no evaluation on the set, oldest first, until the run has
/// ended. Downloads a checkpoint into a temporary folder, which is removed after the call. A checkpoint that the server
/// removes meanwhile is skipped. Throws Failure if the server or the run is not found, and what `evaluate` throws.
void watch_checkpoints(const WatchedRun& watched,
                       const std::function<void(const std::filesystem::path& checkpoint)>& evaluate);

}  // namespace babelring

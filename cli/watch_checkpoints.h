#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "client/server_access.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// The checkpoints of a run on a server that an evaluation on one set follows.
struct WatchedRun {
  ServerAccess access;
  std::string run;  // id, name or a unique prefix of either
  /// The name of the set, given the run's configuration. Updates with an evaluation on it are not evaluated again.
  std::function<std::string(const TrainConfig& config)> set_of;
};

/// Calls `evaluate` for each checkpoint of the run that has no evaluation on the set, oldest first, until the run has
/// ended. Downloads a checkpoint into a temporary folder, which is removed after the call, and if SIGINT or SIGTERM
/// ends the process. A checkpoint that the server removes meanwhile is skipped. While the server does not answer, it is
/// waited for, and what failed meanwhile is repeated. Throws Failure if the server or the run is not found at the
/// beginning, and what `evaluate` throws.
void watch_checkpoints(const WatchedRun& watched,
                       const std::function<void(const std::filesystem::path& checkpoint)>& evaluate);

}  // namespace babelring

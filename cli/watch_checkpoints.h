#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/files.h"
#include "cli/runs/screen.h"
#include "client/server_access.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// A new folder for downloads, PREFIX-XXXXXX below `parent`, which is removed with the object, or when SIGINT or
/// SIGTERM ends the process. A process that was killed leaves its folder behind: the constructor removes those with the
/// same prefix and the marker file of a WorkFolder that no process holds locked (flock). Throws Failure if the folder
/// cannot be made.
class DownloadFolder {
 public:
  DownloadFolder(const std::filesystem::path& parent, const std::string& prefix);
  ~DownloadFolder();
  DownloadFolder(const DownloadFolder&) = delete;
  DownloadFolder& operator=(const DownloadFolder&) = delete;

  const std::filesystem::path& path() const { return folder_.path; }

 private:
  struct Locked {
    std::filesystem::path path;
    FileDescriptor lock;
  };
  static Locked make(const std::filesystem::path& parent, const std::string& prefix);

  Locked folder_;
  Interrupt interrupt_;
};

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

#pragma once

#include <map>
#include <vector>

#include "server/launch/launcher.h"

namespace babelring::launch {

/// mpirun on this host, over the profile's hosts. It leads a session of its own: whatever it and its ranks of this host
/// leave behind belongs to that session and is found there, also after the server was started anew. Ranks of other
/// hosts end with mpirun's connection to them, or by the answer to their next heartbeat.
class MpirunLauncher : public Launcher {
 public:
  std::string name() const override { return "mpirun"; }
  std::vector<std::string> command(const Profile& profile, const LaunchOrder& order) const override;
  store::LauncherHandle start(const Profile& profile, const LaunchOrder& order) override;
  std::optional<store::LauncherHandle> find(const std::string& run, std::int64_t attempt) override;
  Sight look(const store::LauncherHandle& handle) override;
  void ask_to_stop(const store::LauncherHandle& handle) override;
  void kill(const store::LauncherHandle& handle, bool urgent) override;

 private:
  std::map<std::int64_t, std::int64_t> ended_;  // children of ours that were waited for: pid → exit code
};

}  // namespace babelring::launch

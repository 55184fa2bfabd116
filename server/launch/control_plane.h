#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/failure.h"
#include "base/replaceable.h"
#include "server/launch/config_check.h"
#include "server/launch/purge.h"
#include "server/launch/supervisor.h"

namespace babelring::launch {

struct ControlOptions {
  Profiles profiles = builtin_profiles();
  std::filesystem::path worker;       // of profiles that name none
  std::filesystem::path runs_folder;  // likewise
};

/// Profiles, heartbeats and the supervisor with its thread. Safe to use from any thread after start().
class ControlPlane {
 public:
  /// `store` must outlive it.
  ControlPlane(store::Store& store, ControlOptions options);
  /// Stops supervising. Runs go on.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  /// Before start(): called after each change of state, and what an attempt gets in its environment.
  void on_change(std::function<void(const std::string& run)> changed) { changed_ = std::move(changed); }
  void on_launch(std::function<std::vector<std::string>(const std::string& run)> environment) {
    environment_ = std::move(environment);
  }
  /// Before start(): what removes a checkpoint of a deleted run, where removing them was asked for, and what notes that
  /// a run was purged. By default checkpoints stay and nothing is noted.
  void on_purge(RemoveCheckpoint remove, NotePurge note) {
    remove_ = std::move(remove);
    note_purge_ = std::move(note);
  }
  /// Before start(): SupervisorParts::heard_until. Called on the supervisor's thread until this object ends.
  void hear_until(std::function<SteadyClock::time_point(const std::string& run)> heard_until) {
    heard_until_ = std::move(heard_until);
  }
  /// Begins to supervise. `address` is where workers report to, unless their profile says otherwise.
  void start(const std::string& address);

  /// Null if there is none of that name.
  std::shared_ptr<const Profile> find_profile(const std::string& name) const;
  std::shared_ptr<const Profiles> profiles() const { return profiles_.get(); }
  /// From the next look at the runs on, these profiles apply. Requires start(). Throws UsageFailure, and changes
  /// nothing, if a run that waits or trains needs a profile that is gone.
  void use_profiles(Profiles chosen);
  Heartbeats& heartbeats() { return heartbeats_; }
  /// The program and arguments that an order would run.
  std::vector<std::string> command(const Profile& profile, const LaunchOrder& order) const;
  /// Something changed: look at once.
  void wake();
  /// Passes a wish to stop with a checkpoint on to every run of the server's, without waiting for them.
  void ask_all_to_stop();

 private:
  void loop();
  /// Fills in what a profile leaves empty.
  std::shared_ptr<const Profiles> completed(Profiles profiles) const;

  store::Store& store_;
  const ControlOptions options_;
  std::string address_;
  Replaceable<const Profiles> profiles_;
  Heartbeats heartbeats_;
  Launchers launchers_;
  std::function<void(const std::string&)> changed_ = [](const std::string&) {};
  std::function<std::vector<std::string>(const std::string&)> environment_ = [](const std::string&) {
    return std::vector<std::string>();
  };
  std::function<SteadyClock::time_point(const std::string&)> heard_until_;
  RemoveCheckpoint remove_ = [](const store::CheckpointRow&) { fail("nothing here removes checkpoints"); };
  NotePurge note_purge_ = [](store::Database&, const std::string&) {};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false, stopping_ = false;
  std::thread thread_;
};

/// The worker beside this very program.
std::filesystem::path worker_beside_us();

}  // namespace babelring::launch

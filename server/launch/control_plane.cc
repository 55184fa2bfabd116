#include "server/launch/control_plane.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/clock.h"
#include "server/launch/mpirun_launcher.h"
#include "server/launch/slurm_launcher.h"
#include "server/launch/supervisor.h"
#include "server/store/control.h"
#include "server/store/home.h"
#include "server/store/runs.h"

namespace babelring::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t max_checkpoints = 100'000;

void remove_checkpoints(store::Store& store, const store::RunToPurge& run, const RemoveCheckpoint& remove) {
  std::vector<store::CheckpointRow> checkpoints;
  {
    auto reader = store.reader(store::Store::For::own);
    checkpoints = store::list_checkpoints(*reader, run.number, false, {0, 0}, max_checkpoints);
  }
  for (const store::CheckpointRow& checkpoint : checkpoints) {
    try {
      remove(checkpoint);
    } catch (const std::exception& failure) {  // remove the run anyway
      spdlog::warn("run {}: checkpoint {} stays on disk: {}", run.id, checkpoint.name, failure.what());
    }
  }
  if (run.folder.empty()) return;
  std::error_code error;
  fs::remove_all(run.folder, error);
  if (error) spdlog::warn("run {}: {} cannot be removed: {}", run.id, run.folder, error.message());
}

}  // namespace

void purge_deleted_runs(store::Store& store, const RemoveCheckpoint& remove, const NotePurge& note,
                        std::int64_t now_ms) {
  std::vector<store::RunToPurge> doomed;
  {
    auto reader = store.reader(store::Store::For::own);
    doomed = store::runs_to_purge(*reader, now_ms - deleted_kept_ms);
  }
  for (const store::RunToPurge& run : doomed) {
    if (run.checkpoints_too) remove_checkpoints(store, run, remove);
    store.write([&](store::Database& database) {
      store::purge_run(database, run.number);
      note(database, run.id);
    });
    spdlog::info("run {}: purged", run.id);
  }
}

namespace {

constexpr auto after_a_failure = std::chrono::milliseconds(200);
constexpr auto seems_over = std::chrono::seconds(5);  // several heartbeats are missing
constexpr std::chrono::milliseconds between_looks_for_ends = std::chrono::seconds(2);
constexpr auto between_purges = std::chrono::hours(1);

}  // namespace

ControlPlane::ControlPlane(store::Store& store, ControlOptions options) : store_(store), options_(std::move(options)) {
  launchers_["mpirun"] = std::make_unique<MpirunLauncher>();
  launchers_["slurm"] = std::make_unique<SlurmLauncher>();
  profiles_.set(completed(options_.profiles));
}

ControlPlane::~ControlPlane() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const Profiles> ControlPlane::completed(Profiles profiles) const {
  std::error_code ignored;
  const auto here = std::filesystem::current_path(ignored).string();
  for (auto& [name, profile] : profiles) {
    if (profile.worker.empty()) profile.worker = options_.worker.string();
    if (profile.folder.empty()) profile.folder = options_.runs_folder.string();
    if (profile.working_folder.empty()) profile.working_folder = here;
    profile.folder = std::filesystem::absolute(profile.folder).string();
    if (profile.server.empty()) profile.server = address_;
  }
  return std::make_shared<const Profiles>(std::move(profiles));
}

void ControlPlane::start(const std::string& address) {
  address_ = address;
  profiles_.set(completed(options_.profiles));
  thread_ = std::thread([this] { loop(); });
}

void ControlPlane::use_profiles(Profiles chosen) {
  std::vector<store::LaunchRow> runs;
  {
    auto reader = store_.reader();
    runs = store::active_launches(*reader);
  }
  for (const store::LaunchRow& run : runs) {
    if (chosen.contains(run.profile) || !profiles()->contains(run.profile) || run.state == store::RunState::lost)
      continue;
    throw UsageFailure(
        fmt::format("profile {} is missing, but run {} ({}) needs it", run.profile, run.id, name_of(run.state)));
  }
  profiles_.set(completed(std::move(chosen)));
  wake();
}

std::shared_ptr<const Profile> ControlPlane::find_profile(const std::string& name) const {
  const auto all = profiles_.get();
  const auto found = all->find(name);
  return found == all->end() ? nullptr : std::shared_ptr<const Profile>(all, &found->second);
}

std::vector<std::string> ControlPlane::command(const Profile& profile, const LaunchOrder& order) const {
  return launchers_.at(profile.launcher)->command(profile, order);
}

void ControlPlane::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_one();
}

Absence ControlPlane::find_absence() {
  try {
    const std::string now = process_world(),
                      before =
                          store_.write([&](store::Database& database) { return store::exchange_world(database, now); });
    if (!before.empty() && before != now) return Absence::world;
  } catch (const std::exception& failure) {
    spdlog::error("supervisor: {}", failure.what());
  }
  return store_.ended_cleanly() ? Absence::planned : Absence::none;
}

ControlPlane::Suspending ControlPlane::suspend_wish() {
  const std::lock_guard lock(mutex_);
  return suspend_;
}

void ControlPlane::note_suspended(bool saving) {
  const std::lock_guard lock(mutex_);
  saving_ = saving;
}

void ControlPlane::loop() {
  first_();
  const Absence absence = find_absence();
  auto known = profiles_.get();
  Profiles profiles = *known;  // replaced only between ticks
  Supervisor supervisor({.store = store_,
                         .heartbeats = heartbeats_,
                         .profiles = profiles,
                         .launchers = launchers_,
                         .heard_until = heard_until_,
                         .changed = changed_,
                         .absence = absence,
                         .environment = environment_});
  auto next_purge = SteadyClock::now();
  for (;;) {
    std::chrono::milliseconds pause = after_a_failure;
    try {
      if (auto newest = profiles_.get(); newest != known) {
        known = std::move(newest);
        profiles = *known;
      }
      const Suspending suspend = suspend_wish();
      if (suspend != Suspending::no) supervisor.suspend_runs(suspend == Suspending::all);
      pause = supervisor.tick();
      store_black_boxes(seems_over);
      if (suspend != Suspending::no) note_suspended(supervisor.is_suspending());
      if (SteadyClock::now() >= next_purge) {
        next_purge = SteadyClock::now() + between_purges;
        purge_deleted_runs(store_, remove_, note_purge_, wall_time_ms());
      }
    } catch (const std::exception& failure) {  // e.g. a full disk; the next tick may succeed
      spdlog::error("supervisor: {}", failure.what());
    }
    if (heartbeats_.awaits_ends()) pause = std::min(pause, between_looks_for_ends);
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, pause, [&] { return stopping_ || woken_; });
    woken_ = false;
    if (stopping_) break;
  }
  try {
    store_black_boxes(std::chrono::seconds(0));  // the next server has heard nothing of this minute
  } catch (const std::exception& failure) {
    spdlog::error("supervisor: {}", failure.what());
  }
}

void ControlPlane::store_black_boxes(std::chrono::seconds silence) {
  const auto ended = heartbeats_.take_ended(silence);
  if (ended.empty()) return;
  store_.write([&](store::Database& database) {
    for (const BlackBox& box : ended) store::put_black_box(database, box.run, heartbeats_.row_of(box));
  });
}

void ControlPlane::suspend_runs(bool all) {
  {
    const std::lock_guard lock(mutex_);
    suspend_ = all ? Suspending::all : Suspending::beside_server;
    saving_ = woken_ = true;
  }
  wake_.notify_one();
}

bool ControlPlane::is_suspending() {
  const std::lock_guard lock(mutex_);
  return saving_;
}

bool ends_its_container() {
  if (getpid() == 1) return true;
  if (getppid() != 1) return false;
  std::string first;
  std::getline(std::ifstream("/proc/1/comm"), first);
  return !first.empty() && first != "systemd" && first != "init";
}

std::filesystem::path default_worker() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path("worker") : self.parent_path() / "worker";
}

}  // namespace babelring::launch

#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "base/names.h"
#include "base/records/records.h"
#include "server/launch/supervisor.h"
#include "server/store/runs.h"
#include "tests/server/launch/fake_launcher.h"

namespace babelring::launch {

/// A store, a launcher that starts nothing, and a clock that the test turns.
class SupervisorFixture : public ::testing::Test {
 protected:
  SupervisorFixture() {
    std::string name = std::filesystem::temp_directory_path() / "babelring-launch-XXXXXX";
    folder_ = mkdtemp(name.data());
    store_ = std::make_unique<store::Store>(folder_ / "data");
    auto fake = std::make_unique<testing::FakeLauncher>();
    fake_ = fake.get();
    launchers_["mpirun"] = std::move(fake);
    profiles_["p"] = {.name = "p",
                      .worker = "worker",
                      .server = "http://s",
                      .folder = folder_,
                      .max_running = 2,
                      .heartbeat_timeout_s = 10,
                      .stall_timeout_s = 100,
                      .cool_down_s = 10};
    start();
  }
  ~SupervisorFixture() override {
    supervisor_.reset();
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void start() {
    supervisor_ = std::make_unique<Supervisor>(
        SupervisorParts{.store = *store_,
                        .heartbeats = beats_,
                        .profiles = profiles_,
                        .launchers = launchers_,
                        .now = [this] { return now_; },
                        .heard_until = [this](const std::string& run) { return std::min(handled_until_(run), now_); },
                        .changed = [this](const std::string&) { ++changes_; },
                        .absence = absence_});
  }
  std::string submit(std::int64_t world = 2, std::int64_t max_restarts = 1) {
    store::NewRun run{.id = make_id('r'),
                      .name = "n",
                      .profile = "p",
                      .config = "name: n\n",
                      .world_size = world,
                      .max_restarts = max_restarts,
                      .actor = "me"};
    run.folder = folder_ / run.id;
    store_->write([&](store::Database& database) { store::create_run(database, run, 1); });
    return run.id;
  }
  /// Time passes in ticks of a second.
  void pass(int seconds = 1) {
    for (int i = 0; i < seconds; ++i) {
      now_ += std::chrono::seconds(1);
      supervisor_->tick();
    }
  }
  void beat(const std::string& run, std::int64_t rank, std::int64_t attempt = 1, double since_update_s = 0) {
    beats_.record(run, {.attempt = attempt,
                        .rank = rank,
                        .pid = 5,
                        .update = 3,
                        .host = "h" + std::to_string(rank),
                        .since_update_s = since_update_s});
  }
  store::RunRow row(const std::string& run) {
    auto reader = store_->reader();
    return store::find_run(*reader, run).value();
  }
  std::string state(const std::string& run) { return std::string(name_of(row(run).state)); }
  void say(const std::string& run, const char* event, std::int64_t attempt = 1, const std::string& detail = "as told") {
    report(run, attempt, LifecycleRecord{.event = event, .detail = detail});
  }
  void say_checkpoint(const std::string& run, std::int64_t attempt, std::int64_t update) {
    CheckpointRecord checkpoint;
    checkpoint.update = update;
    checkpoint.name = "update-" + std::to_string(update);
    checkpoint.folder = folder_ / run / checkpoint.name;
    report(run, attempt, checkpoint);
  }
  void report(const std::string& run, std::int64_t attempt, RecordBody body) {
    Record record;
    record.header = {.run = run, .attempt = attempt, .sequence = ++sequence_, .rank = 0, .host = "h0", .time_ms = 1};
    record.body = std::move(body);
    std::promise<void> done;
    store_->submit({run, attempt, 0, "h0", {record}},
                   [&](const store::Batch&, const store::IngestResult&) { done.set_value(); });
    done.get_future().get();
  }
  void stop(const std::string& run, store::StopMode mode, std::int64_t grace_s) {
    store_->write([&](store::Database& database) { store::request_stop(database, run, mode, grace_s, "me", 2); });
  }
  /// Two ranks that report.
  std::string started() {
    const std::string run = submit();
    pass();
    beat(run, 0);
    beat(run, 1);
    pass();
    return run;
  }

  std::filesystem::path folder_;
  SteadyClock::time_point now_ = SteadyClock::time_point(std::chrono::hours(1000));
  std::unique_ptr<store::Store> store_;
  Heartbeats beats_{[this] { return now_; }};
  Profiles profiles_;
  Launchers launchers_;
  testing::FakeLauncher* fake_ = nullptr;
  std::unique_ptr<Supervisor> supervisor_;
  /// Until when heartbeats that came were noted.
  std::function<SteadyClock::time_point(const std::string&)> handled_until_ = [](const std::string&) {
    return SteadyClock::time_point::max();
  };
  Absence absence_ = Absence::none;  // of a server before start()
  int changes_ = 0;
  std::int64_t sequence_ = 0;
};

}  // namespace babelring::launch

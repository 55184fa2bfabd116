#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "client/server_access.h"
#include "nmt/metering/gpu_meter.h"
#include "nmt/train/setup/requests.h"
#include "worker/heartbeat_relay.h"
#include "worker/spool.h"

namespace babelring {

/// Statistics of this process and its host from the kernel; 0 if unavailable.
struct HostState {
  std::int64_t resident_bytes = 0;
  std::int64_t memory_bytes = 0, memory_available_bytes = 0;
  std::int64_t memory_limit_bytes = 0, memory_left_bytes = 0;  // the same, reduced to the limits of its control group
  std::int64_t disk_free_bytes = 0;
  std::int64_t network_rx_bytes = 0, network_tx_bytes = 0;  // as read_network_counters(), without lo
  std::int64_t processors = 0;
  double load = 0;  // one-minute load average
  std::optional<double> temperature_celsius;
};

/// The temperature in °C of the hottest processor sensor below `sensors`: of hwmon's drivers for processors, or else of
/// the thermal zones. Nothing if there is none, as in most virtual machines. Tests pass their own path.
std::optional<double> read_temperature(const std::filesystem::path& sensors = "/sys/class");

/// disk_free_bytes is that of the file system of `folder`.
HostState read_host_state(const std::filesystem::path& folder);

struct HeartbeatOptions {
  ServerAccess server;
  RankIdentity identity;
  std::filesystem::path folder = {};  // a path on the file system whose free space is reported
  /// Returns the newest GPU reading. Called on the heartbeat's thread. Empty without a GPU.
  std::function<GpuReading()> gpu = {};
  std::chrono::milliseconds between{1000};
  std::chrono::milliseconds max_backoff{5000};  // max backoff while the server does not respond
  std::chrono::milliseconds request_timeout{5000};
};

/// The targets of commands in heartbeat responses.
struct HeartbeatCommands {
  StopRequest& stop;
  CheckpointRequest& checkpoint;
  TraceRequest& trace;
  /// Called on the heartbeat's thread when the server reports that this attempt is over. A newer attempt may be
  /// running, so the process must stop writing and exit.
  std::function<void(const std::string& why)> fenced;
};

/// Sends the rank's state to the server once a second and executes the commands in the response. Uses its own thread
/// and connection and no collectives: training never waits for it, and a rank stuck in a collective still reports. The
/// rank that sends the records of a host sends the heartbeats of the ranks that reach it, too; commands to these are
/// the same as to itself. Ignores a server that is down or too old to support heartbeats.
class Heartbeat {
 public:
  Heartbeat(HeartbeatOptions options, HeartbeatCommands orders, HeartbeatRelay relay = {});
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Call from the training thread after each update.
  void record_update(std::int64_t update);

 private:
  void loop();
  /// Waits, and receives heartbeats of other ranks meanwhile.
  void wait(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds duration);
  /// Sends one heartbeat. Returns false if the server did not accept it; then requested_pause_ is its Retry-After.
  bool beat();
  Result<HttpResponse> post(const std::string& heartbeat);
  /// Whether the response says that this attempt is over. Then it has called `fenced`.
  bool is_fenced(const HttpResponse& response) const;
  void execute(const json::object& answer);
  json::object body() const;

  const HeartbeatOptions options_;
  HeartbeatCommands orders_;
  HttpClient client_;
  HeartbeatRelay relay_;
  std::atomic<std::int64_t> update_{0};
  std::atomic<SteadyClock::rep> updated_at_;
  bool stop_logged_ = false;
  std::chrono::milliseconds requested_pause_{0};
  std::minstd_rand jitter_{std::random_device{}()};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace babelring

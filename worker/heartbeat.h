#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "client/http_client.h"
#include "nmt/metering/nvml.h"
#include "nmt/train/checkpoint_request.h"
#include "nmt/train/stop_request.h"

namespace babelring {

struct HeartbeatOptions {
  std::string server;             // http://host:port
  std::string token;              // empty: none
  std::filesystem::path ca_file;  // authorities that https trusts; empty: the system's
  std::string run;                // r_…
  std::int64_t attempt = 1;
  std::int64_t rank = 0;
  std::string host;
  std::filesystem::path folder;  // on the file system whose free space is reported
  /// The newest reading of the GPU; empty: there is none. Called on the heartbeat's thread.
  std::function<GpuReading()> gpu = {};
  std::chrono::milliseconds between{1000};
  std::chrono::milliseconds longest_retry{5000};  // while the server does not answer
  std::chrono::milliseconds request_timeout{5000};
};

/// What the answers to heartbeats can set off.
struct HeartbeatOrders {
  StopRequest& stop;
  CheckpointRequest& checkpoint;
  /// Called on the heartbeat's thread when the server says that this attempt is over, so another may be running: the
  /// process must write nothing more and end.
  std::function<void(const std::string& why)> fenced;
};

/// Tells the server once a second that this rank is alive and how far it is, and carries out what the answer asks for.
/// It has its own thread and connection and takes no part in collectives: training never waits for it, and a rank that
/// hangs in a collective still reports. A server that is down, or too old to know heartbeats, changes nothing.
class Heartbeat {
 public:
  Heartbeat(HeartbeatOptions options, HeartbeatOrders orders);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// From the training thread after each update.
  void note_update(std::int64_t update);

 private:
  void loop();
  /// One heartbeat; false if the server did not take it. Sets asked_pause_ to what it asks for then.
  bool beat();
  void carry_out(const json::object& answer);
  json::object body() const;

  const HeartbeatOptions options_;
  HeartbeatOrders orders_;
  HttpClient client_;
  std::atomic<std::int64_t> update_{0};
  std::atomic<SteadyClock::rep> updated_at_;
  bool stop_said_ = false;
  std::chrono::milliseconds asked_pause_{0};
  std::minstd_rand jitter_{std::random_device{}()};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace babelring

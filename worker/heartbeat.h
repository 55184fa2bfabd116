#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "client/http_client.h"
#include "nmt/base/clock.h"
#include "nmt/base/json.h"
#include "nmt/train/checkpoint_request.h"
#include "nmt/train/nvml.h"
#include "nmt/train/stop_request.h"

namespace babelring {

struct HeartbeatOptions {
  std::string server;             // http://host:port
  std::string token;              // empty: none
  std::filesystem::path ca_file;  // whom https trusts; empty: the system's authorities
  std::string run;                // r_…
  std::int64_t attempt = 1;
  std::int64_t rank = 0;
  std::string host;
  std::filesystem::path folder;  // whose free space is told
  /// What the GPU says of itself; absent: there is none. Called on the heartbeat's thread.
  std::function<GpuReading()> gpu = {};
  std::chrono::milliseconds between{1000};
  std::chrono::milliseconds longest_retry{5000};  // while the server does not answer
  std::chrono::milliseconds request_timeout{5000};
};

/// What heartbeats may set going.
struct HeartbeatOrders {
  StopRequest& stop;
  CheckpointRequest& checkpoint;
  /// The server says that this attempt is over and another one may be running. Called on the heartbeat's thread; the
  /// process must write nothing any more and end.
  std::function<void(const std::string& why)> fenced;
};

/// Tells the server once a second that this rank lives and how far it is, and carries out what the answer asks for. A
/// thread and a connection of its own, outside of all collectives: training never waits for it, and a rank that hangs
/// in a collective still reports. A server that is away, or too old to know heartbeats, changes nothing.
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
  /// One heartbeat; false if the server did not take it.
  bool beat();
  void carry_out(const json::object& answer);
  json::object body() const;

  const HeartbeatOptions options_;
  HeartbeatOrders orders_;
  HttpClient client_;
  std::atomic<std::int64_t> update_{0};
  std::atomic<SteadyClock::rep> updated_at_;
  bool stop_said_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace babelring

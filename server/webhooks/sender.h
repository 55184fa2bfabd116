#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/repeating_thread.h"
#include "client/http_client.h"
#include "server/store/store.h"
#include "server/store/webhooks.h"

namespace babelring::webhooks {

struct SenderOptions {
  std::filesystem::path ca_file;            // PEM file of trusted certificate authorities; empty: the system's
  std::chrono::milliseconds timeout{5000};  // of look-up, connection, handshake, sending and answer, each
  /// A delivery that was not taken is tried again after this time, which doubles with each try up to max_pause, until
  /// it is give_up old. A longer Retry-After of the receiver is kept, up to max_pause.
  std::chrono::milliseconds first_pause{2000}, max_pause{3'600'000}, give_up{86'400'000};
};

/// Makes daily digests and sends the stored deliveries on its own thread, to the webhooks' addresses alone: redirects
/// are not followed. What is not taken waits in the database, also over a restart; a receiver may therefore get one
/// twice, with the same id. A response 2xx takes a delivery; 4xx except 408 and 429, and 3xx, refuse it for good. Tests
/// are tried once. Thread-safe.
class Sender {
 public:
  /// Sends nothing before start(). The store must outlive the sender. Throws UsageFailure if the CA file is invalid.
  Sender(store::Store& store, SenderOptions options);
  /// Cancels the request in progress; its delivery is tried again by the next sender.
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// Starts the thread. `page`: address of the dashboard for links of webhooks that name none.
  void start(std::string page);
  /// Call after deliveries or webhooks have changed. Cheap.
  void wake();

 private:
  void work();
  /// Queues the digests that are due. Returns when the next one is due.
  std::int64_t queue_digests();
  std::vector<store::DueDelivery> due_now();
  void try_delivery(store::DueDelivery due);
  Result<HttpResponse> send(const store::DueDelivery& due);
  void settle(store::DeliveryRow& delivery, const Result<HttpResponse>& answer) const;

  store::Store& store_;
  const SenderOptions options_;
  std::string page_;
  std::mutex mutex_;              // guards client_, ending_ and the start of thread_
  HttpClient* client_ = nullptr;  // of the request in progress
  bool ending_ = false;
  std::atomic<std::int64_t> next_ms_{0};   // of the monotonic clock, when to look again; 0: now
  std::optional<RepeatingThread> thread_;  // last member: it uses all the others
};

}  // namespace babelring::webhooks

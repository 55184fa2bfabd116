#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "client/event_reader.h"
#include "client/server_access.h"

namespace babelring {

/// Follows a server's event stream. Reconnects after a lost connection and resumes after the last event received
/// (Last-Event-ID).
class EventStream {
 public:
  struct Options {
    std::chrono::milliseconds silence{40000};  // timeout without data; the server sends a comment every 15 s
    std::chrono::milliseconds first_retry{500}, max_backoff{10000};
  };

  /// `target`: path and query of the stream, /api/v1/events?run=r_…
  EventStream(const ServerAccess& access, std::string target, Options options);
  EventStream(const ServerAccess& access, std::string target) : EventStream(access, std::move(target), Options()) {}

  struct Handlers {
    std::function<bool(const ServerEvent&)> on_event;     // return false to end follow()
    std::function<void()> on_connected;                   // after each connection, before its events
    std::function<void(const std::string& why)> on_lost;  // once per lost connection
  };
  /// Runs until on_event returns false or end() is called. Throws ServerRefusal if the server permanently refuses the
  /// stream (4xx except 408 and 429). Retries after all other errors, with exponential backoff.
  void follow(const Handlers& handlers);

  /// Ends the current and all later calls of follow(). Thread-safe.
  void end();

 private:
  /// Follows one connection. Success if the stream was ended by on_event or end(); the Error says how it was lost.
  Status follow_once(const Handlers& handlers);
  /// Returns false if end() was called meanwhile.
  bool wait(std::chrono::milliseconds time);

  HttpClient client_;
  const std::string target_;
  const Options options_;
  EventReader reader_;
  bool connected_ = false;

  std::mutex mutex_;  // guards ended_
  std::condition_variable changed_;
  bool ended_ = false;
};

}  // namespace babelring

#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "client/server_access.h"

namespace babelring {

/// One event of a text/event-stream.
struct ServerEvent {
  std::string name = "message", data;
};

/// Incremental parser for a stream of server-sent events (WHATWG HTML standard).
class EventReader {
 public:
  /// Parses the next bytes and calls `on_event` for each complete event. If `on_event` returns false, drops the
  /// remaining bytes and returns false.
  bool feed(std::string_view bytes, const std::function<bool(const ServerEvent&)>& on_event);

  /// The newest event id, to send as Last-Event-ID.
  const std::string& last_id() const { return last_id_; }
  /// The reconnection delay requested by the server, if any.
  std::optional<std::chrono::milliseconds> retry() const { return retry_; }
  /// Call before a new connection: drops an incomplete event and keeps the id.
  void restart();

 private:
  void take_line(std::string_view line);

  std::string line_, id_, last_id_;
  ServerEvent event_;
  bool has_data_ = false;
  bool after_return_ = false;  // the last byte was \r, so skip a following \n
  std::optional<std::chrono::milliseconds> retry_;
};

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

#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "client/event_reader.h"
#include "client/server_access.h"

namespace babelring {

/// Follows a server's event stream for as long as it is wanted: after a lost connection it reconnects, and resumes
/// behind the last event seen (Last-Event-ID).
class EventStream {
 public:
  struct Options {
    std::chrono::milliseconds silence{
        40000};  // without a byte the connection counts as lost; a comment comes every 15 s
    std::chrono::milliseconds first_retry{500}, longest_retry{10000};
  };

  /// `target` is that of the stream: /api/v1/events?run=r_…
  EventStream(const ServerAccess& access, std::string target, Options options);
  EventStream(const ServerAccess& access, std::string target) : EventStream(access, std::move(target), Options()) {}

  struct Handlers {
    std::function<bool(const ServerEvent&)> on_event;     // false ends follow()
    std::function<void()> on_connected;                   // at each connection, before its events
    std::function<void(const std::string& why)> on_lost;  // once for each loss
  };
  /// Until on_event says so or end() is called. Throws ServerRefusal when the server refuses the stream for good (4xx
  /// but 408 and 429); everything else is tried again.
  void follow(const Handlers& handlers);

  /// From any thread: ends follow() now, and every later one.
  void end();

 private:
  enum class Outcome { ended, lost };
  Outcome follow_once(const Handlers& handlers, std::string& why);
  /// False when end() came meanwhile.
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

#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace babelring {

/// One event of a text/event-stream.
struct ServerEvent {
  std::string name = "message", data;
};

/// Parses an event stream (WHATWG, server-sent events) that arrives in arbitrary pieces.
class EventReader {
 public:
  /// `on_event` answers false to end. Returns false once it has; what came after is then dropped.
  bool feed(std::string_view bytes, const std::function<bool(const ServerEvent&)>& on_event);

  /// Of the newest event that had one: for Last-Event-ID.
  const std::string& last_id() const { return last_id_; }
  /// The wait before a reconnection that the server asked for, if it did.
  std::optional<std::chrono::milliseconds> retry() const { return retry_; }
  /// A new connection begins: half an event of the old one is dropped, the id is kept.
  void restart();

 private:
  void take_line(std::string_view line);

  std::string line_, id_, last_id_;
  ServerEvent event_;
  bool has_data_ = false;
  bool after_return_ = false;  // the last byte was \r: a \n now belongs to it
  std::optional<std::chrono::milliseconds> retry_;
};

}  // namespace babelring

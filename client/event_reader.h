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

}  // namespace babelring

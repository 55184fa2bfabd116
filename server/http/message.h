#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/result.h"
#include "server/http/access.h"

namespace babelring::http {

/// A request as the client sent it: a parsed head with validated framing, and the body once it is complete.
struct RequestMessage {
  std::string method;                          // GET, HEAD, POST, …
  std::string target;                          // as sent by the client
  std::vector<std::string> segments;           // path segments, percent-decoded; none is "." or ".."
  std::map<std::string, std::string> query;    // percent-decoded; the last value of repeated names
  std::map<std::string, std::string> headers;  // names in lower case; repeated fields are joined by ", "
  std::int64_t content_length = 0;
  std::string body;
  std::string id;  // X-Request-Id of the client, or generated
  bool keep_alive = true;
  bool http_1_0 = false;

  /// Empty if absent.
  std::string_view header(const std::string& lower_case_name) const;
  std::optional<std::string> query_value(const std::string& name) const;
};

/// A request with everything that the server adds to it while it is admitted and handled.
struct Request : RequestMessage {
  Request() = default;
  explicit Request(RequestMessage message) : RequestMessage(std::move(message)) {}

  std::map<std::string, std::string> parameters;  // values of the {name} segments in the route's template
  std::string address;                            // client address
  std::string actor = "anonymous";                // name in audit and state rows: the token's name, if there is a token
  std::shared_ptr<const Caller> caller;           // null without a token
  std::shared_ptr<WriteNote> note;                // audit note of a write request; otherwise null
  std::vector<std::pair<std::string, std::string>> answer_headers;  // added to every response
  SteadyClock::time_point complete;                                 // arrival of the last byte
  std::shared_ptr<const std::atomic<bool>> gone;  // set by the session when the client disconnects; null: not watched
  std::shared_ptr<const void> room;               // memory reservation for the body, released with the request

  /// True if the client has disconnected, so further work is wasted. Check it before and between long pieces of work.
  /// It becomes true within about a second of a reset or close. A half-closed connection (`nc -N`) still gets its
  /// response. Cheap; any thread may call it.
  bool abandoned() const { return gone && gone->load(std::memory_order_relaxed); }

  /// The owner for fair queueing: its token, or its address without a token.
  std::string owner() const { return caller == nullptr ? "address " + address : caller->token; }

  const std::string& parameter(const std::string& name) const { return parameters.at(name); }
};

/// True if the request's method may change anything.
bool writes(const RequestMessage& request);

/// Parses request.target into decoded `segments` and `query`. The error describes a malformed target.
Status parse_target(RequestMessage& request);

/// A file range, sent with sendfile.
struct FileSlice {
  FileDescriptor file;
  std::int64_t offset = 0, length = 0;
};

/// A body of known length: a sequence of strings and file ranges.
struct CompositeBody {
  std::vector<std::variant<std::string, FileSlice>> parts;

  void add(std::string text) { parts.emplace_back(std::move(text)); }
  void add(FileSlice slice) { parts.emplace_back(std::move(slice)); }
  std::int64_t length() const;
  /// Reduces the body to `length` bytes starting at `first`. The range must lie within the body.
  void cut(std::int64_t first, std::int64_t length);
};

/// A body of unknown length, produced in chunks. Called on handler threads, one call at a time.
class BodyStream {
 public:
  virtual ~BodyStream() = default;
  /// The next chunk; empty at the end. An exception aborts the connection, so that the client detects a truncated body.
  virtual std::string next() = 0;
};

/// A body of server-sent events for one subscriber. take() and ended() are called on the session's thread.
class EventSource {
 public:
  virtual ~EventSource() = default;
  /// Event-stream frames: `text` followed by `last`, a large string shared between subscribers, which may be null.
  /// `more`: more frames are due now.
  struct Frames {
    std::string text;
    std::shared_ptr<const std::string> last;
    bool more = false;
    std::string_view tail() const { return last ? std::string_view(*last) : std::string_view(); }
    std::size_t size() const { return text.size() + tail().size(); }
  };
  /// The next few pending frames, each complete. Empty if none is pending.
  virtual Frames take() = 0;
  /// True once the last frame was taken: the connection ends. Endless sources never end.
  virtual bool ended() const { return false; }
  /// Sets a callback for new frames. It is called from any thread, once until the next take(). It must be cheap, and
  /// may still be called during destruction of the source.
  virtual void on_ready(std::function<void()> wake) = 0;
};

struct Response {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::variant<std::string, std::string_view, FileSlice, CompositeBody, std::shared_ptr<BodyStream>,
               std::shared_ptr<EventSource>>
      body;
  std::shared_ptr<const void> held;  // released after the body was sent or the connection has ended
  double work_ms = 0;                // handling time, for the access log

  Response& set(std::string name, std::string value) & {
    headers.emplace_back(std::move(name), std::move(value));
    return *this;
  }
  Response&& set(std::string name, std::string value) && { return std::move(set(std::move(name), std::move(value))); }
  /// Empty if absent. The name is case-sensitive.
  std::string_view header(std::string_view name) const;
};

Response text_response(int status, std::string content_type, std::string body);

/// Status in metrics and logs of requests whose client disconnected before the response.
inline constexpr int client_left = 499;

/// The reason phrase of a status, for example "Not Found".
std::string_view reason_of(int status);

}  // namespace babelring::http

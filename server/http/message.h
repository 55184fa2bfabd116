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
#include "base/result.h"
#include "server/http/access.h"
#include "server/http/reply.h"
#include "server/http/unique_fd.h"

namespace babelring::http {

/// A request whose framing was vetted and whose body is complete.
struct Request {
  std::string method;                             // GET, HEAD, POST, …
  std::string target;                             // as sent
  std::vector<std::string> segments;              // of the path, percent-decoded, none of them "." or ".."
  std::map<std::string, std::string> query;       // percent-decoded; of equal names the last one
  std::map<std::string, std::string> headers;     // names in lower case; equal names joined by ", "
  std::map<std::string, std::string> parameters;  // {name} parts of the route's template
  std::string body;
  std::string id;                        // X-Request-Id: the client's, or one made here
  std::string address;                   // the client's
  std::string actor = "anonymous";       // the caller in audit and state rows: the name of the token, if there is one
  std::shared_ptr<const Caller> caller;  // null without a token
  std::shared_ptr<WriteNote> note;       // the audit's note of a request that writes; null if there is none
  std::vector<std::pair<std::string, std::string>> answer_headers;  // added to whatever response it gets
  bool keep_alive = true;
  bool http_1_0 = false;
  SteadyClock::time_point complete;               // when it had come, with its body
  std::shared_ptr<const std::atomic<bool>> gone;  // set by the session once nobody takes the answer; null: not watched
  std::shared_ptr<const void> room;               // the reservation of the body's memory, released with the request

  /// Whether the client is known to have left, so that work for this request is wasted. Any thread, and cheap: ask
  /// before the work and between its parts. It becomes true within about a second after the connection was reset or
  /// closed. A client that has only ended its own side (`nc -N`) still gets its answer.
  bool abandoned() const { return gone && gone->load(std::memory_order_relaxed); }

  /// Empty if absent.
  std::string_view header(const std::string& lower_case_name) const;
  const std::string& parameter(const std::string& name) const { return parameters.at(name); }
  std::optional<std::string> query_value(const std::string& name) const;
};

/// Splits a request target into decoded segments and query. The Error says what is wrong with it.
Result<Done> parse_target(Request& request);

/// A part of a file that goes out by sendfile.
struct FileSlice {
  UniqueFd file;
  std::int64_t offset = 0, length = 0;
};

/// A body of known length: texts and parts of files, one after another.
struct Pieces {
  std::vector<std::variant<std::string, FileSlice>> parts;

  void add(std::string text) { parts.emplace_back(std::move(text)); }
  void add(FileSlice slice) { parts.emplace_back(std::move(slice)); }
  std::int64_t length() const;
  /// Narrows the body to `length` bytes from `first`. Both must lie within it.
  void cut(std::int64_t first, std::int64_t length);
};

/// A body of unknown length, made piece by piece. Called on handler threads, one call at a time.
class Producer {
 public:
  virtual ~Producer() = default;
  /// The next piece; empty at the end. An exception breaks the connection off, so that the client sees a truncated
  /// body.
  virtual std::string next() = 0;
};

/// An endless body: server-sent events for one subscriber. take() is called on the session's thread.
class EventSource {
 public:
  virtual ~EventSource() = default;
  /// Event-stream frames: `text`, then `last`, a large text shared with other subscribers, unless it is null. `more`:
  /// others are due already.
  struct Frames {
    std::string text;
    std::shared_ptr<const std::string> last;
    bool more = false;
    std::string_view tail() const { return last ? std::string_view(*last) : std::string_view(); }
    std::size_t size() const { return text.size() + tail().size(); }
  };
  /// Frames that are due, each complete; a few at a time: empty when there are no more.
  virtual Frames take() = 0;
  /// Sets what is called, from any thread, when take() may have something: once, until take() is called again. It must
  /// be cheap, and may still be called while the source is destroyed.
  virtual void on_ready(std::function<void()> wake) = 0;
};

struct Response {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::variant<std::string, std::string_view, FileSlice, Pieces, std::shared_ptr<Producer>,
               std::shared_ptr<EventSource>>
      body;
  std::shared_ptr<const void> held;  // released once the body is sent or the connection has ended
  double work_ms = 0;                // how long its handler worked, for the access log

  Response& set(std::string name, std::string value) & {
    headers.emplace_back(std::move(name), std::move(value));
    return *this;
  }
  Response&& set(std::string name, std::string value) && { return std::move(set(std::move(name), std::move(value))); }
  /// Empty if absent. The name is case-sensitive.
  std::string_view header(std::string_view name) const;
};

Response text_response(int status, std::string content_type, std::string body);

/// The reason phrase of a status: "Not Found".
std::string_view reason_of(int status);

}  // namespace babelring::http

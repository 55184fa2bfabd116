#pragma once

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

#include "nmt/base/result.h"
#include "server/http/access.h"
#include "server/http/unique_fd.h"

namespace babelring::http {

/// A request whose framing was vetted and whose body is complete.
struct Request {
  std::string method;                             // GET, HEAD, POST, …
  std::string target;                             // as sent
  std::vector<std::string> segments;              // of the path, percent-decoded, none of them "." or ".."
  std::map<std::string, std::string> query;       // percent-decoded; the last of equal names counts
  std::map<std::string, std::string> headers;     // names in lower case; equal names joined by ", "
  std::map<std::string, std::string> parameters;  // {name} parts of the route's template
  std::string body;
  std::string id;                        // X-Request-Id: the client's, or made
  std::string address;                   // the client's
  std::string actor = "anonymous";       // who asks, as audit and state rows name it: the token's name, if there is one
  std::shared_ptr<const Caller> caller;  // null without a token
  std::shared_ptr<WriteNote> note;  // of one that writes: what the audit will say of it; null where nothing is noted
  std::vector<std::pair<std::string, std::string>> answer_headers;  // what every answer to it says
  bool keep_alive = true;

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

/// A body of known length: texts and parts of files, one after another. The files go out by sendfile.
struct Pieces {
  std::vector<std::variant<std::string, FileSlice>> parts;

  void add(std::string text) { parts.emplace_back(std::move(text)); }
  void add(FileSlice slice) { parts.emplace_back(std::move(slice)); }
  std::int64_t length() const;
  /// Narrows the body to `length` bytes from `first`. Both must lie within it.
  void cut(std::int64_t first, std::int64_t length);
};

/// A body of unknown length, made piece by piece. Called on the handlers' threads, one call at a time.
class Producer {
 public:
  virtual ~Producer() = default;
  /// The next piece; empty at the end. Throws to break the connection off (the client then sees a truncated body).
  virtual std::string next() = 0;
};

/// A body without end: events for one subscriber. take() is called on the session's thread, on_ready's function from
/// any thread.
class EventSource {
 public:
  virtual ~EventSource() = default;
  /// Complete event-stream frames that are due, or nothing.
  virtual std::string take() = 0;
  /// `wake` is called, cheaply, whenever take() may have something. It may be called until the source is destroyed.
  virtual void on_ready(std::function<void()> wake) = 0;
};

struct Response {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::variant<std::string, std::string_view, FileSlice, Pieces, std::shared_ptr<Producer>,
               std::shared_ptr<EventSource>>
      body;
  std::shared_ptr<const void> held;  // let go when the body was sent or the connection has ended

  Response& set(std::string name, std::string value) & {
    headers.emplace_back(std::move(name), std::move(value));
    return *this;
  }
  Response&& set(std::string name, std::string value) && { return std::move(set(std::move(name), std::move(value))); }
  /// Empty if absent. Name as it was set.
  std::string_view header(std::string_view name) const;
};

Response text_response(int status, std::string content_type, std::string body);

/// The reason phrase of a status: "Not Found".
std::string_view reason_of(int status);

/// Gives the answer to a request; called once, from any thread.
using Reply = std::function<void(Response)>;

}  // namespace babelring::http

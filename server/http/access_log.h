#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "server/http/message.h"
#include "server/http/router.h"

namespace babelring::http {

/// A request and its response, as written to the access log. Unknown members stay empty.
struct AccessEntry {
  std::int64_t time_ms = 0;                // wall clock, when the response was ready
  std::string_view request;                // request id
  std::string_view address;                // the client's
  std::string_view token, name;            // the token's id and name, never its secret
  std::string_view method, route, target;  // route: the template
  int status = 0;
  std::int64_t bytes = 0;                        // bytes sent, including the head
  double wait_ms = 0, work_ms = 0, send_ms = 0;  // queueing, handling and sending time
};

/// Writes a JSON line for each refused or slow request, or for every request, on a separate thread. Lines about refused
/// requests are rate-limited, per source and in total, so a client can neither fill the disk nor delay the server. A
/// summary line counts suppressed lines. Thread-safe.
class AccessLog {
 public:
  enum class Which { none, refused, all };  // refused: includes slow requests
  struct Options {
    Which which = Which::refused;
    std::filesystem::path file;                            // created with mode 0600; "-": standard error
    std::chrono::milliseconds slow{1000};                  // threshold for queueing plus handling time; 0: none
    std::int64_t max_file_bytes = std::int64_t{64} << 20;  // rotation to FILE.1, FILE.2, … at this size; 0: never
    int old_files = 4;                                     // number of rotated files to keep
    int lines_a_second = 50;                               // limit for clients without a token, and the same for others
    int lines_a_source = 3;                                // limit per token or address and status
    std::size_t waiting_bytes = std::size_t{1} << 20;      // max unwritten bytes; further lines are suppressed
  };

  /// Opens the file. Throws Failure.
  explicit AccessLog(Options options);
  /// Writes all pending lines.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  /// True if a request with this result is logged, subject to rate limits. `known`: the token is valid. Cheap.
  bool wants(int status, bool known, double handled_ms) const;
  /// Logs a request without blocking. Escapes client-supplied text and redacts tokens.
  void write(const AccessEntry& entry);
  /// Closes the file and opens the path again, after an external log rotation. The next line goes to the new file.
  void reopen();
  /// Number of suppressed lines since the start.
  std::uint64_t suppressed() const { return suppressed_; }

 private:
  struct Second {
    std::int64_t number = 0;       // second of the steady clock
    int anonymous = 0, known = 0;  // lines written
    std::map<std::string, int, std::less<>> sources;
    std::map<int, std::int64_t> left_out;  // suppressed lines by status
  };
  class File;
  bool refused(int status, bool known) const;
  bool admit(const AccessEntry& entry);  // requires mutex_; so does turn()
  void turn(std::int64_t second);
  void loop();

  const Options options_;
  std::unique_ptr<File> file_;  // used only by thread_ once it runs
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string waiting_;
  Second second_;
  bool reopening_ = false, stopping_ = false;
  std::atomic<std::uint64_t> suppressed_ = 0;
  std::thread thread_;
};

/// A request's line in the access log. Written on destruction: after the response was sent or the client has
/// disconnected.
class AccessLine {
 public:
  /// `log`: null writes no line. `route`: null if none matched. `handled_ms`: time from the request's last byte to its
  /// response. `sent`: total bytes sent on the connection. References must outlive this object.
  AccessLine(AccessLog* log, const Request& request, const Route* route, const Response& response, double handled_ms,
             const std::int64_t& sent);
  ~AccessLine();
  AccessLine(const AccessLine&) = delete;
  AccessLine& operator=(const AccessLine&) = delete;

 private:
  AccessLog* log_;  // null: write no line
  const Request& request_;
  const Route* route_;
  const int status_;
  const double work_ms_, wait_ms_;
  const std::int64_t& sent_;
  const std::int64_t sent_before_;
  Stopwatch sending_;
};

/// Logs a request, with status 499, of a client that disconnected before the response.
void log_client_left(AccessLog* log, const Request& request, const Route* route, double handled_ms);

/// Logs a client that is refused before its request could be parsed.
void log_malformed(AccessLog* log, const std::string& address, int status);

}  // namespace babelring::http

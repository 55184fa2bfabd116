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

namespace babelring::http {

/// A request and its answer, as the access log tells of them. What is not known stays empty.
struct AccessEntry {
  std::int64_t time_ms = 0;                // wall clock, when the answer was ready
  std::string_view request;                // its id
  std::string_view address;                // the client's
  std::string_view token, name;            // the token's id and name, never its secret
  std::string_view method, route, target;  // route: the template
  int status = 0;
  std::int64_t bytes = 0;                        // sent, head and body
  double wait_ms = 0, work_ms = 0, send_ms = 0;  // waited for its handler; handled; sent to the client
};

/// One line of JSON for each refused or slow request, or for each request, written to a file by a thread of its own.
/// Lines about refused requests are bounded for each second, by source and in all, and what is left out is counted in
/// a line of its own: a client can neither fill the disk nor delay the server. Thread-safe.
class AccessLog {
 public:
  enum class Which { none, refused, all };  // refused: and slow ones
  struct Options {
    Which which = Which::refused;
    std::filesystem::path file;                            // made for its owner alone; "-": standard error
    std::chrono::milliseconds slow{1000};                  // waiting and work together; 0: no request is slow
    std::int64_t max_file_bytes = std::int64_t{64} << 20;  // then it is renamed FILE.1, FILE.1 to FILE.2, …; 0: never
    int old_files = 4;                                     // kept besides the one that is written
    int lines_a_second = 50;                               // about clients without a token, and as many about others
    int lines_a_source = 3;                                // of those, about one token or address with one status
    std::size_t waiting_bytes = std::size_t{1} << 20;      // of lines not yet written; more are left out
  };

  /// Opens the file. Throws Failure if that fails.
  explicit AccessLog(Options options);
  /// Writes what waits.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  /// Whether a request with this outcome has a line, as far as repeats allow. `known`: its token is valid. Cheap.
  bool wants(int status, bool known, double handled_ms) const;
  /// Does not block. Escapes the client's texts and hides tokens in them.
  void note(const AccessEntry& entry);
  /// Closes the file and opens its name anew, for programs that rename logs. The next line goes there.
  void reopen();
  /// Lines left out since the start.
  std::uint64_t suppressed() const { return suppressed_; }

 private:
  struct Second {
    std::int64_t number = 0;       // which second, by the steady clock
    int anonymous = 0, known = 0;  // lines written
    std::map<std::string, int, std::less<>> sources;
    std::map<int, std::int64_t> left_out;  // by status
  };
  class File;
  bool refused(int status, bool known) const;
  bool admit(const AccessEntry& entry);  // with mutex_ held, like the next
  void turn(std::int64_t second);
  void loop();

  const Options options_;
  std::unique_ptr<File> file_;  // the thread's alone once it runs
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string waiting_;
  Second second_;
  bool reopening_ = false, stopping_ = false;
  std::atomic<std::uint64_t> suppressed_ = 0;
  std::thread thread_;
};

}  // namespace babelring::http

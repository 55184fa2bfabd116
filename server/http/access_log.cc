#include "server/http/access_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/result.h"
#include "base/secret.h"

namespace babelring::http {
namespace {

constexpr std::size_t max_target_bytes = 1024, max_word_bytes = 128;

std::int64_t this_second() {
  return std::chrono::duration_cast<std::chrono::seconds>(SteadyClock::now().time_since_epoch()).count();
}

/// Client-supplied text as a JSON string, or null if it is empty.
std::string quoted(std::string_view text, std::size_t max_bytes = max_word_bytes) {
  if (text.empty()) return "null";
  const bool cut = text.size() > max_bytes;
  // Redact before truncating: a truncated token would not be recognised.
  std::string shown = printable(std::string_view(redact(text)).substr(0, max_bytes));
  if (cut) shown += "...";
  return to_text(json::value(shown));
}

std::string line_of(const AccessEntry& entry) {
  return fmt::format(
      R"({{"time":"{}","event":"request","request":{},"address":{},"token":{},"name":{},"method":{},"route":{},)"
      R"("target":{},"status":{},"bytes":{},"wait_ms":{:.3f},"work_ms":{:.3f},"send_ms":{:.3f}}})"
      "\n",
      format_rfc3339(entry.time_ms), quoted(entry.request), quoted(entry.address), quoted(entry.token),
      quoted(entry.name), quoted(entry.method), quoted(entry.route), quoted(entry.target, max_target_bytes),
      entry.status, entry.bytes, entry.wait_ms, entry.work_ms, entry.send_ms);
}

}  // namespace

/// The log file with rotation. Reports write errors at most once per minute.
class AccessLog::File {
 public:
  explicit File(const Options& options) : options_(options) {
    if (const Status opened = open(); !opened) fail("access log {}: {}", options.file.string(), opened.error());
  }

  /// Returns true if all bytes were written.
  bool write(std::string_view text) {
    if (file_.get() < 0) static_cast<void>(open());
    const int target = to_stderr() ? STDERR_FILENO : file_.get();
    while (!text.empty() && target >= 0) {
      const ssize_t written = ::write(target, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) break;
      text.remove_prefix(static_cast<std::size_t>(written));
      bytes_ += written;
    }
    if (!text.empty()) complain(std::strerror(errno));
    if (options_.max_file_bytes > 0 && bytes_ >= options_.max_file_bytes && !to_stderr()) rotate();
    return text.empty();
  }

  Status open() {
    if (to_stderr()) return {};
    file_ = FileDescriptor(::open(options_.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (file_.get() < 0) return Error{std::strerror(errno)};
    struct stat status{};
    bytes_ = ::fstat(file_.get(), &status) == 0 ? status.st_size : 0;
    return {};
  }

  void reopen() {
    if (const Status opened = open(); !opened) complain(opened.error());
  }

 private:
  bool to_stderr() const { return options_.file == "-"; }

  std::filesystem::path old(int number) const { return options_.file.string() + fmt::format(".{}", number); }

  void rotate() {
    std::error_code absent;
    for (int number = options_.old_files - 1; number >= 1; --number) {
      std::filesystem::rename(old(number), old(number + 1), absent);
    }
    std::error_code error;
    if (options_.old_files > 0) std::filesystem::rename(options_.file, old(1), error);
    if (options_.old_files <= 0) std::filesystem::remove(options_.file, error);
    if (error) complain(error.message());
    reopen();
  }

  void complain(const std::string& error) {
    if (const auto now = SteadyClock::now(); now >= quiet_until_) {
      quiet_until_ = now + std::chrono::minutes(1);
      spdlog::error("access log {}: {}", options_.file.string(), error);
    }
  }

  const Options& options_;
  FileDescriptor file_;
  std::int64_t bytes_ = 0;
  SteadyClock::time_point quiet_until_{};
};

AccessLog::AccessLog(Options options) : options_(std::move(options)) {
  if (options_.which == Which::none) return;
  file_ = std::make_unique<File>(options_);
  thread_ = std::thread([this] { loop(); });
}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool AccessLog::refused(int status, bool known) const {
  if (status < 400) return false;
  // For an authenticated client these statuses are ordinary results.
  const bool ordinary = status == 404 || status == 409 || status == 412 || status == 416 || status == 422;
  return !known || !ordinary;
}

bool AccessLog::wants(int status, bool known, double handled_ms) const {
  if (options_.which != Which::refused) return options_.which == Which::all;
  return refused(status, known) ||
         (options_.slow.count() > 0 && handled_ms >= static_cast<double>(options_.slow.count()));
}

void AccessLog::turn(std::int64_t second) {
  if (second == second_.number) return;
  const Second past = std::exchange(second_, Second{.number = second, .sources = {}, .left_out = {}});
  if (past.left_out.empty()) return;
  std::int64_t lines = 0;
  json::object by_status;
  for (const auto& [status, count] : past.left_out) {
    lines += count;
    by_status[std::to_string(status)] = count;
  }
  waiting_ += to_text(json::object{{"time", format_rfc3339(wall_time_ms())},
                                   {"event", "suppressed"},
                                   {"lines", lines},
                                   {"by_status", std::move(by_status)}}) +
              '\n';
}

bool AccessLog::admit(const AccessEntry& entry) {
  const bool known = !entry.token.empty();
  // With `all`, only refused requests are rate-limited.
  if (options_.which == Which::all && !refused(entry.status, known)) return true;
  int& lines = known || entry.status >= 500 ? second_.known : second_.anonymous;
  if (lines >= options_.lines_a_second) return false;
  int& from_source = second_.sources[fmt::format("{} {}", known ? entry.token : entry.address, entry.status)];
  if (from_source >= options_.lines_a_source) return false;
  ++from_source;
  ++lines;
  return true;
}

void AccessLog::write(const AccessEntry& entry) {
  if (options_.which == Which::none) return;
  bool admitted = false;
  {
    const std::lock_guard lock(mutex_);
    turn(this_second());
    admitted = waiting_.size() < options_.waiting_bytes && admit(entry);
    if (!admitted) {
      ++suppressed_;
      ++second_.left_out[entry.status];
    }
  }
  if (admitted) {
    const std::string line = line_of(entry);
    const std::lock_guard lock(mutex_);
    waiting_ += line;
  }
  wake_.notify_one();
}

void AccessLog::reopen() {
  {
    const std::lock_guard lock(mutex_);
    reopening_ = true;
  }
  wake_.notify_one();
}

void AccessLog::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto due = [&] { return stopping_ || reopening_ || !waiting_.empty(); };
    if (second_.left_out.empty()) {
      wake_.wait(lock, [&] { return due() || !second_.left_out.empty(); });
    } else {
      wake_.wait_for(lock, std::chrono::seconds(1), due);
    }
    turn(stopping_ ? -1 : this_second());
    const std::string lines = std::exchange(waiting_, {});
    const bool last = stopping_, reopening = std::exchange(reopening_, false);
    lock.unlock();
    if (reopening) file_->reopen();
    if (!lines.empty()) file_->write(lines);
    if (last && lines.empty()) return;
    lock.lock();
    if (last && waiting_.empty()) return;
  }
}

AccessLine::AccessLine(AccessLog* log, const Request& request, const Route* route, const Response& response,
                       double handled_ms, const std::int64_t& sent)
    : log_(log != nullptr && log->wants(response.status, request.caller != nullptr, handled_ms) ? log : nullptr),
      request_(request),
      route_(route),
      status_(response.status),
      work_ms_(std::min(response.work_ms, handled_ms)),
      wait_ms_(handled_ms - work_ms_),
      sent_(sent),
      sent_before_(sent) {}

AccessLine::~AccessLine() {
  if (log_ == nullptr) return;
  AccessEntry entry;
  entry.time_ms = wall_time_ms();
  entry.request = request_.id;
  entry.address = request_.address;
  if (request_.caller) {
    entry.token = request_.caller->token;
    entry.name = request_.caller->name;
  }
  entry.method = request_.method;
  if (route_ != nullptr) entry.route = route_->path;
  entry.target = request_.target;
  entry.status = status_;
  entry.bytes = sent_ - sent_before_;
  entry.wait_ms = wait_ms_;
  entry.work_ms = work_ms_;
  entry.send_ms = sending_.elapsed_ms();
  log_->write(entry);
}

void log_client_left(AccessLog* log, const Request& request, const Route* route, double handled_ms) {
  Response unheard;
  unheard.status = 499;
  constexpr std::int64_t nothing = 0;
  const AccessLine line(log, request, route, unheard, handled_ms, nothing);
}

void log_malformed(AccessLog* log, const std::string& address, int status) {
  if (log == nullptr || !log->wants(status, false, 0)) return;
  AccessEntry entry;
  entry.time_ms = wall_time_ms();
  entry.address = address;
  entry.status = status;
  log->write(entry);
}

}  // namespace babelring::http

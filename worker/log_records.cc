#include "worker/log_records.h"

#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <string>

#include "base/log.h"

namespace babelring {
namespace {

/// The level name in log records.
const char* level_name(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return "error";
  return level == spdlog::level::warn ? "warn" : "info";
}

/// Sets a flag for its scope.
class ScopedFlag {
 public:
  explicit ScopedFlag(bool& flag) : flag_(flag) { flag_ = true; }
  ~ScopedFlag() { flag_ = false; }
  ScopedFlag(const ScopedFlag&) = delete;
  ScopedFlag& operator=(const ScopedFlag&) = delete;

 private:
  bool& flag_;
};

}  // namespace

class LogRecords::Listener : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    static thread_local bool writing = false;
    if (writing || message.level < spdlog::level::info) return;
    const ScopedFlag in_write(writing);
    const std::lock_guard lock(mutex_);
    if (records_ == nullptr) return;
    const std::string_view text(message.payload.data(), message.payload.size());
    records_->write(LogRecord{.level = level_name(message.level), .text = printable(text)});
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

  void connect(RecordSink* records) {
    const std::lock_guard lock(mutex_);
    records_ = records;
  }

 private:
  std::mutex mutex_;
  RecordSink* records_ = nullptr;
};

LogRecords::LogRecords() : listener_(std::make_shared<Listener>()) {
  spdlog::default_logger()->sinks().push_back(listener_);
}

LogRecords::Connection::Connection(LogRecords& log, RecordSink& records) : log_(log) {
  log_.listener_->connect(&records);
}

LogRecords::Connection::~Connection() {
  log_.listener_->connect(nullptr);
}

}  // namespace babelring

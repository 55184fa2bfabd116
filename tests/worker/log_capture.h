#pragma once

#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace babelring {

/// Keeps the newest 1,000 lines that are logged while it lives, instead of the usual log. For any thread.
class LogCapture {
 public:
  LogCapture() : usual_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("capture", lines_));
  }
  ~LogCapture() { spdlog::set_default_logger(usual_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::string text() const {
    std::string all;
    for (const std::string& line : lines_->last_formatted()) all += line;
    return all;
  }
  int count(std::string_view part) const {
    const std::string all = text();
    int found = 0;
    for (std::size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++found;
    return found;
  }

 private:
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> lines_ = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1000);
  std::shared_ptr<spdlog::logger> usual_;
};

}  // namespace babelring

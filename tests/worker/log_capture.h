#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <string_view>

namespace babelring {

/// Keeps what is logged while it lives, instead of the usual log.
class LogCapture {
 public:
  LogCapture() : usual_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("capture", std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_)));
  }
  ~LogCapture() { spdlog::set_default_logger(usual_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  /// Only while no other thread logs.
  std::string text() const { return stream_.str(); }
  int count(std::string_view part) const {
    const std::string all = text();
    int found = 0;
    for (std::size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) ++found;
    return found;
  }

 private:
  std::ostringstream stream_;
  std::shared_ptr<spdlog::logger> usual_;
};

}  // namespace babelring

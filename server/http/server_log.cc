#include "server/http/server_log.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/secret.h"

namespace babelring::http {
namespace {

std::string_view view_of(spdlog::string_view_t text) {
  return {text.data(), text.size()};
}

/// Formats the message text, escaped and with tokens redacted.
class SafeText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& out) override {
    const std::string text = printable(redact(view_of(message.payload)));
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<SafeText>(); }
};

class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto time_ms = std::chrono::duration_cast<std::chrono::milliseconds>(message.time.time_since_epoch()).count();
    const std::string line = to_text(json::object{
                                 {"time", format_rfc3339(time_ms)},
                                 {"level", view_of(spdlog::level::to_string_view(message.level))},
                                 {"text", printable(redact(view_of(message.payload)))},
                             }) +
                             '\n';
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

}  // namespace

std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format) {
  if (format == LogFormat::json) return std::make_unique<JsonFormatter>();
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<SafeText>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$: %*");
  return formatter;
}

void set_log_format(LogFormat format) {
  spdlog::default_logger()->set_formatter(log_formatter(format));
}

}  // namespace babelring::http

#pragma once

#include <spdlog/formatter.h>

#include <memory>

namespace babelring::http {

enum class LogFormat { text, json };

/// Formatter of the server log: one line per message, with tokens redacted.
/// text: `2026-11-21T09:15:30.123+01:00 info: message`, in local time, with control bytes escaped.
/// json: `{"time":"2026-11-21T08:15:30.123Z","level":"info","text":"message"}`.
std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format);

/// Sets the format of the default logger created by init_log().
void set_log_format(LogFormat format);

}  // namespace babelring::http

#pragma once

#include <spdlog/formatter.h>

#include <memory>

namespace babelring::http {

enum class LogFormat { text, json };

/// Lays out the server's own log, a line for each message, with tokens hidden. text: `2026-11-21T09:15:30.123+01:00
/// info: words`, in local time and with control bytes escaped; json:
/// `{"time":"2026-11-21T08:15:30.123Z","level":"info", "text":"words"}`.
std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format);

/// Makes the default logger of init_log() write in that form.
void set_log_format(LogFormat format);

}  // namespace babelring::http

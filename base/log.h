#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// Sets up spdlog's default logger. Lines go to standard error, coloured on a terminal:
/// `2026-11-21 08:15:30.123 [rank 1] info: text`.
/// `who`: the text in brackets; empty to omit it. `level`: trace, debug, info, warn or error; throws UsageFailure if
/// unknown. `over_bar`: each log line first erases the terminal's last line, which may hold a progress bar.
/// Callers escape control bytes in messages with printable().
void init_log(const std::string& who, const std::string& level = "info", bool over_bar = false);

/// Changes the level of the default logger. Throws UsageFailure if the level is unknown.
void set_log_level(const std::string& level);

/// True if the text is valid UTF-8. Overlong forms, surrogates and values above U+10FFFF are invalid.
bool is_utf8(std::string_view text);

/// Escapes control bytes and invalid UTF-8 as \xNN. For log lines and messages that quote untrusted text.
std::string printable(std::string_view text);

}  // namespace babelring

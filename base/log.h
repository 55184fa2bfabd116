#pragma once

#include <string>
#include <string_view>

namespace babelring {

/// Sets the process-wide spdlog default logger: lines on standard error, `2026-11-21 08:15:30.123 [rank 1] info: text`,
/// coloured on a terminal. `who` is empty for single programs. Level from `level` (trace, debug, info, warn, error).
/// `over_bar`: the last line of the terminal may hold a progress bar with the cursor at its front; each log line erases
/// it. Use spdlog::info(...) and its kin afterwards. Control bytes in messages are the caller's to escape
/// (printable()).
void init_log(const std::string& who, const std::string& level = "info", bool over_bar = false);

/// Changes the level of the default logger. Throws UsageFailure if there is no level of that name.
void set_log_level(const std::string& level);

/// Whether the whole text is valid UTF-8 (overlong forms, surrogates and values over U+10FFFF are not).
bool is_utf8(std::string_view text);

/// The text with control bytes and invalid UTF-8 escaped as \xNN, for logs and messages that quote foreign text.
std::string printable(std::string_view text);

}  // namespace babelring

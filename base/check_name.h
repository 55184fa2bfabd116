#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace babelring {

/// Checks that `text` is safe to display as a name. The error names the offending character and its byte offset, from
/// 0. Refused: invalid UTF-8, control characters, line and paragraph separators,
/// and invisible format characters such as U+202E, which reverses the direction of text. All scripts are allowed.
Status check_name(std::string_view text);

/// Checks the labels of a run: at most 64, with names of 1 to 64 bytes without '=' and texts of at most 256 bytes as
/// values, all as check_name() accepts them.
Status check_labels(const json::object& labels);

/// Labels written as KEY=VALUE. The Error quotes the first that is none.
Result<json::object> parse_labels(const std::vector<std::string>& texts);

/// Creates an id: `prefix`, '_' and a ULID (26 Crockford base-32 digits: 48 bits of wall-clock ms, 80 random bits).
std::string make_id(char prefix);
bool valid_id(std::string_view id, char prefix);

}  // namespace babelring

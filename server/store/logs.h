#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/store/readers.h"
#include "server/store/rows.h"

namespace babelring::store {

/// A part of a run's log.
struct LogPage {
  std::vector<LogRow> lines;  // oldest first
  std::int64_t next = 0;      // `after` to go on with; what was looked at and did not fit the filter lies before it
};

/// Those after line `after`, or with `tail` the last that fit. At most `limit` lines and about `most_bytes` of text,
/// out of at most 64 MiB looked through: with `after`, a page may be empty and yet say by `next` that there is more.
/// Throws SqlFailure, and Failure for a damaged block.
LogPage read_logs(Reader& reader, std::int64_t run, const LogFilter& filter);

}  // namespace babelring::store

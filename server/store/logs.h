#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/store/readers.h"
#include "server/store/rows.h"

namespace babelring::store {

/// A page of a run's log.
struct LogPage {
  std::vector<LogRow> lines;  // oldest first
  std::int64_t next = 0;      // pass it as `after` for the next page; all lines up to it were searched
};

/// Returns the first matching lines after `after`, or the last ones with `tail`. A page has at most `limit` lines and
/// about `max_bytes` of text. One call searches at most 64 MiB, so a page can be empty although more lines match:
/// continue from `next`. Throws SqlFailure, or Failure for a damaged block.
LogPage read_logs(Reader& reader, std::int64_t run, const LogFilter& filter);

}  // namespace babelring::store

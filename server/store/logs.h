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
  std::int64_t next = 0;      // `after` of the next page: every line up to it was looked at
};

/// The first lines after `after` that match the filter, or with `tail` the last ones: at most `limit` lines and about
/// `most_bytes` of text. At most 64 MiB are searched, so that a page may be empty although its `next` leads to more.
/// Throws SqlFailure, and Failure for a damaged block.
LogPage read_logs(Reader& reader, std::int64_t run, const LogFilter& filter);

}  // namespace babelring::store

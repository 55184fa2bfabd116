#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "server/store/readers.h"

/// Who wrote what. Each function throws SqlFailure.
namespace babelring::store {

struct AuditRow {
  std::int64_t number = 0;                // its entry
  std::int64_t time_ms = 0, last_ms = 0;  // of the first and the last request that it stands for
  std::int64_t count = 1;                 // of those requests
  bool kept_by_age = false;               // else by count
  std::string actor, token, method, route, object;
  int status = 0;
  std::string request, address;  // of the first
};

/// Empty texts and open bounds match all rows.
struct AuditFilter {
  std::string actor, token, route;
  std::string object;  // this path and those below it
  int lowest_status = 0, highest_status = 999;
  std::int64_t from_ms = 0, to_ms = std::numeric_limits<std::int64_t>::max();  // a request in [from, to)
  std::int64_t before = std::numeric_limits<std::int64_t>::max();              // entries
  std::int64_t after = 0;
  std::int64_t limit = 50;
  bool oldest_first = false;
};
/// Newest first unless the filter says otherwise.
std::vector<AuditRow> list_audit(Reader& reader, const AuditFilter& filter);

/// Appends a row and returns its entry.
std::int64_t append_audit(Database& writer, const AuditRow& row);

/// Adds later requests to the row that stands for them. Does nothing where that is gone.
void repeat_audit(Database& writer, std::int64_t entry, std::int64_t count, std::int64_t last_ms);

/// Rows that are kept by count.
std::int64_t count_audit(Database& writer);

/// Deletes up to `limit` rows that are kept by age and whose last request was before `before_ms`. Returns how many.
std::int64_t expire_audit(Database& writer, std::int64_t before_ms, std::int64_t limit);

/// Of the rows kept by count, deletes all but the newest `keep`. Returns how many.
std::int64_t bound_audit(Database& writer, std::int64_t keep);

}  // namespace babelring::store

#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "server/store/readers.h"

/// The audit log: who changed what. All functions throw SqlFailure.
namespace babelring::store {

struct AuditRow {
  std::int64_t number = 0;                // entry number
  std::int64_t time_ms = 0, last_ms = 0;  // first and last request of this entry
  std::int64_t count = 1;                 // requests combined in this entry
  bool kept_by_age = false;               // expires by age; otherwise by number of entries
  std::string actor, token, method, route, object;
  int status = 0;
  std::string request, address;  // of the first request
};

/// Empty strings and default bounds match all rows.
struct AuditFilter {
  std::string actor, token, route;
  std::string object;  // this path and all paths below it
  int lowest_status = 0, highest_status = 999;
  std::int64_t from_ms = 0, to_ms = std::numeric_limits<std::int64_t>::max();  // a request in [from, to)
  std::int64_t before = std::numeric_limits<std::int64_t>::max();              // entry numbers in (after, before)
  std::int64_t after = 0;
  std::int64_t limit = 50;
  bool oldest_first = false;
};
/// Newest first unless `oldest_first` is set.
std::vector<AuditRow> list_audit(Reader& reader, const AuditFilter& filter);

/// Appends a row and returns its entry number.
std::int64_t append_audit(Database& writer, AuditRow row);

/// Adds `count` repeated requests to an existing entry. Does nothing if the entry no longer exists.
void repeat_audit(Database& writer, std::int64_t entry, std::int64_t count, std::int64_t last_ms);

/// Number of rows with kept_by_age false.
std::int64_t count_audit(Database& writer);

/// Deletes up to `limit` rows with kept_by_age true and a last request before `before_ms`. Returns the number of rows
/// deleted.
std::int64_t expire_audit(Database& writer, std::int64_t before_ms, std::int64_t limit);

/// Deletes all rows with kept_by_age false except the newest `keep`. Returns the number of rows deleted.
std::int64_t bound_audit(Database& writer, std::int64_t keep);

}  // namespace babelring::store

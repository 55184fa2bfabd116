#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/store/readers.h"

/// Who wrote what. Each function throws SqlFailure.
namespace babelring::store {

struct AuditRow {
  std::int64_t number = 0, time_ms = 0;
  std::string actor, token, method, route, object;
  int status = 0;
  std::string request, address;
};

/// Newest first, those before `before` (0: all); of one actor unless `actor` is empty.
struct AuditFilter {
  std::string actor;
  std::int64_t before = 0, limit = 50;
};
std::vector<AuditRow> list_audit(Reader& reader, const AuditFilter& filter);

/// Appends rows and deletes all but the newest `keep`.
void append_audit(Database& writer, std::span<const AuditRow> rows, std::int64_t keep);

}  // namespace babelring::store

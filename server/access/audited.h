#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "server/access/audit_log.h"
#include "server/http/message.h"
#include "server/http/reply.h"
#include "server/store/store.h"

namespace babelring::access {

/// The response to a failed write: 507 disk_full, otherwise 503 store_failed. Logs the latter.
http::Problem store_problem(const store::SqlFailure& failure);

/// Store::write for handlers: waits for the commit and returns the result of `change`. Throws exceptions of `change`,
/// and Problem 503 busy, 507 disk_full or 503 store_failed if the write fails. Nothing is changed then.
template <class F>
auto write(store::Store& store, F change) {
  try {
    return store.write(std::move(change));
  } catch (const store::Busy&) {
    throw http::Problem(503, "busy", "too many writes are waiting; send it again");
  } catch (const store::SqlFailure& failure) {
    throw store_problem(failure);
  }
}

/// The audit row of a change by the server itself; the actor is `server`.
http::WriteNote note_of_server(std::string method, std::string route, std::string object, int status);

/// The audit row of a request, written in the same transaction as the change, so that no change lacks its row. A
/// request that changes nothing is recorded when it is answered, like a refused one.
class AuditedRow {
 public:
  /// `status` is the status of the response, `created` the path of the created resource, if any. The request must
  /// outlive this object.
  AuditedRow(AuditLog& audit, const http::Request& request, int status, std::string created = {});

  /// Must be called within the transaction. Throws SqlFailure.
  void append(store::Database& database);
  void set_created(std::string path);
  /// Must be called after the commit.
  void committed();

 private:
  AuditLog& audit_;
  http::WriteNote* note_;   // null if the request is not audited
  http::WriteNote row_;     // the new content of *note_ after the commit
  std::int64_t entry_ = 0;  // 0: a repeat, counted by another row
  bool appended_ = false;
};

/// Like write(), with the request's audit row in the same transaction. Writes no row if `change` returns false or an
/// empty optional, that is, if it changed nothing.
template <class F>
auto audited_write(AuditLog& audit, const http::Request& request, int status, F change, std::string created = {}) {
  using Changed = std::invoke_result_t<F&, store::Database&>;
  AuditedRow row(audit, request, status, std::move(created));
  if constexpr (std::is_void_v<Changed>) {
    write(audit.store(), [&](store::Database& database) {
      change(database);
      row.append(database);
    });
    row.committed();
  } else {
    Changed result = write(audit.store(), [&](store::Database& database) {
      Changed value = change(database);
      bool done = true;
      if constexpr (std::is_same_v<Changed, bool>) done = value;
      if constexpr (requires { value.has_value(); }) done = value.has_value();
      if (done) row.append(database);
      return value;
    });
    row.committed();
    return result;
  }
}

}  // namespace babelring::access

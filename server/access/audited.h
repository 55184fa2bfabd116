#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "server/api/responses.h"

namespace babelring::api {

/// The audit row of a change by the server itself; the actor is `server`.
http::WriteNote note_of_server(std::string method, std::string route, std::string object, int status);

/// The audit row of a request, written in the same transaction as the change, so that no change lacks its row. A
/// request that changes nothing is recorded when it is answered, like a refused one.
class AuditedRow {
 public:
  /// `status` is the status of the response, `made` the path of the created resource, if any. The request must outlive
  /// this object.
  AuditedRow(Service& service, const http::Request& request, int status, std::string made = {});

  /// Must be called within the transaction. Throws SqlFailure.
  void append(store::Database& database);
  void set_made(std::string path);
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
auto audited_write(Service& service, const http::Request& request, int status, F change, std::string made = {}) {
  using Made = std::invoke_result_t<F&, store::Database&>;
  AuditedRow row(service, request, status, std::move(made));
  if constexpr (std::is_void_v<Made>) {
    write(service, [&](store::Database& database) {
      change(database);
      row.append(database);
    });
    row.committed();
  } else {
    Made result = write(service, [&](store::Database& database) {
      Made value = change(database);
      bool done = true;
      if constexpr (std::is_same_v<Made, bool>) done = value;
      if constexpr (requires { value.has_value(); }) done = value.has_value();
      if (done) row.append(database);
      return value;
    });
    row.committed();
    return result;
  }
}

}  // namespace babelring::api

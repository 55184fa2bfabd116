#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "server/api/answers.h"

namespace babelring::api {

/// The row of the audit for what the server does by itself, with `server` for an actor.
http::WriteNote note_of_server(std::string method, std::string route, std::string object, int status);

/// The row of the audit for what a request changes, written in the transaction that changes it: there is no change
/// without its row. A request that changes nothing is noted when it is answered, like one that is refused.
class AuditedRow {
 public:
  /// `status` is what the request will be answered, `made` the path of what it makes, if it makes something. The
  /// request must outlive this.
  AuditedRow(Service& service, const http::Request& request, int status, std::string made = {});

  /// Within the transaction. Throws SqlFailure.
  void append(store::Database& database);
  void set_made(std::string path);
  /// After the commit.
  void committed();

 private:
  AuditLog& audit_;
  http::WriteNote* note_;   // null where nothing is audited
  http::WriteNote row_;     // what it will say once this is committed
  std::int64_t entry_ = 0;  // 0: a repeat, which another row counts
  bool appended_ = false;
};

/// As write(), with the request's row in the same transaction unless `change` returns false or an empty optional, which
/// says that it has changed nothing.
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

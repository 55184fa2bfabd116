#pragma once

#include <utility>

#include "server/http/problem.h"
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

}  // namespace babelring::access

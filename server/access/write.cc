#include "server/access/write.h"

#include <spdlog/spdlog.h>

namespace babelring::access {

http::Problem store_problem(const store::SqlFailure& failure) {
  if (failure.full()) return {507, "disk_full", "the disk of the database is full; nothing was changed"};
  spdlog::error("write: {}", failure.what());
  return {503, "store_failed", "the database failed; nothing was changed, send it again"};
}

}  // namespace babelring::access

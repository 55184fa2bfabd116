#include "server/store/store.h"

#include <spdlog/spdlog.h>

namespace babelring::store {
namespace {

constexpr std::size_t most_readers = 6;
constexpr std::uintmax_t least_free_bytes = std::uintmax_t{64} << 20;

}  // namespace

Store::Store(const std::filesystem::path& folder)
    : folder_(folder), writer_(folder_.database(), folder_.was_unclean()), readers_(folder_.database(), most_readers) {}

Store::~Store() {
  folder_.mark_clean();
}

std::filesystem::path Store::database_file() const {
  return folder_.database();
}

Store::Health Store::health() {
  Health health;
  try {
    health.database = reader()->database.scalar("SELECT count(*) FROM layouts") != "";
  } catch (const std::exception& failure) {
    spdlog::error("readiness: {}", failure.what());
  }
  health.disk = folder_.free_bytes() >= least_free_bytes;
  health.queue = writer_.waiting() < Writer::most_waiting / 2;
  return health;
}

}  // namespace babelring::store

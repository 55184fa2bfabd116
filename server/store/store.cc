#include "server/store/store.h"

#include <spdlog/spdlog.h>

#include "server/store/background_check.h"

namespace babelring::store {
namespace {

// Connections: one per thread, plus some for threads that hold two at once.
constexpr std::size_t max_request_readers = 8, max_query_readers = 4, max_report_readers = 4, max_own_readers = 4;
constexpr std::uintmax_t min_free_bytes = std::uintmax_t{64} << 20;

bool is_large(const std::filesystem::path& database) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(database, error);
  return !error && bytes > Store::max_checked_at_once;
}

/// Checks that a used folder has its database. A folder counts as used once its database exists, so a server killed
/// before that leaves the folder unused.
std::filesystem::path open_database(DataFolder& folder, bool anew) {
  folder.require_database(anew);
  if (folder.has_database()) folder.mark_used();
  return folder.database();
}

}  // namespace

Store::Store(const std::filesystem::path& folder, bool new_database)
    : folder_(folder),
      writer_(open_database(folder_, new_database), folder_.was_unclean() && !is_large(database_file())),
      readers_{Readers(database_file(), max_request_readers), Readers(database_file(), max_query_readers),
               Readers(database_file(), max_report_readers), Readers(database_file(), max_own_readers)} {
  folder_.mark_used();
  if (!folder_.was_unclean()) return;
  spdlog::warn("unclean shutdown of the last server: checking the database");
  if (!is_large(database_file())) return;
  check_ = std::make_unique<BackgroundCheck>(database_file(), [this](const std::string& verdict) {
    const std::string reason = fmt::format("database is damaged: {}; restore a backup or move it away", verdict);
    spdlog::error("{}; all further writes are refused", reason);
    writer_.refuse_all(reason);
  });
}

Store::~Store() {
  if (!check_ || check_->passed()) folder_.mark_clean();
}

std::filesystem::path Store::database_file() const {
  return folder_.database();
}

Store::Health Store::health() {
  Health health;
  try {
    health.database =
        !reader(For::own)->database.scalar("SELECT count(*) FROM layouts").empty() && !writer_.refuses_all();
  } catch (const std::exception& failure) {
    spdlog::error("readiness: {}", failure.what());
  }
  health.disk = folder_.free_bytes() >= min_free_bytes;
  health.queue = !writer_.crowded();
  return health;
}

}  // namespace babelring::store

#include "server/store/store.h"

#include <spdlog/spdlog.h>
#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace babelring::store {

/// Checks a large database for damage on a background thread. The check sees the database as it was when the check
/// started.
class BackgroundCheck {
 public:
  /// `damaged` is called on the background thread with a description if damage is found. Throws SqlFailure if the file
  /// cannot be opened.
  BackgroundCheck(const std::filesystem::path& file, std::function<void(const std::string&)> damaged);
  /// Aborts a running check.
  ~BackgroundCheck();
  BackgroundCheck(const BackgroundCheck&) = delete;
  BackgroundCheck& operator=(const BackgroundCheck&) = delete;

  /// True once the check has completed without finding damage.
  bool passed() const { return passed_; }

 private:
  void check();

  Database database_;
  const std::function<void(const std::string&)> damaged_;
  std::atomic<bool> stopping_ = false, ended_ = false, passed_ = false;
  std::thread thread_;  // last member: it uses all the others
};

BackgroundCheck::BackgroundCheck(const std::filesystem::path& file, std::function<void(const std::string&)> damaged)
    : database_(file, Database::Mode::reader), damaged_(std::move(damaged)), thread_([this] {
        check();
        ended_ = true;
      }) {}

BackgroundCheck::~BackgroundCheck() {
  stopping_ = true;
  while (!ended_) {  // repeated, because an interrupt before the statement starts has no effect
    sqlite3_interrupt(database_.handle());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  thread_.join();
}

void BackgroundCheck::check() {
  std::string verdict;
  try {
    if (!stopping_) verdict = database_.scalar("PRAGMA quick_check(1)");
  } catch (const std::exception& failure) {
    verdict = failure.what();
  }
  if (stopping_) return;
  passed_ = verdict == "ok";
  if (passed_) {
    spdlog::info("database: check passed");
  } else {
    damaged_(verdict);
  }
}

namespace {

// Connections: one per thread, plus some for threads that hold two at once.
constexpr std::size_t max_request_readers = 8, max_query_readers = 4, max_report_readers = 4, max_own_readers = 4;
constexpr std::uintmax_t min_free_bytes = std::uintmax_t{64} << 20;

bool is_large(const std::filesystem::path& database) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(database, error);
  return !error && bytes > Store::max_checked_at_once;
}

std::optional<WalDamage> look_at_wal(const std::filesystem::path& database) {
  const std::filesystem::path wal = database.string() + "-wal";
  const std::optional<WalDamage> damage = find_wal_damage(wal);
  if (damage) {
    spdlog::warn(
        "{}: {} is damaged: the last {} transactions are lost; workers send again the records that are in their spools",
        wal.string(), damage->frame == 0 ? "its header" : fmt::format("frame {} of {}", damage->frame, damage->frames),
        damage->transactions);
  }
  return damage;
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
      wal_damage_(look_at_wal(database_file())),
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

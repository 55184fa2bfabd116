#include "server/artifacts/backup_maker.h"

#include <spdlog/spdlog.h>

#include "base/clock.h"
#include "server/http/reply.h"
#include "server/store/backup.h"

namespace babelring::artifacts {
namespace {

constexpr std::uintmax_t spare_bytes = std::uintmax_t{64} << 20;  // disk space that a backup must leave free

}  // namespace

BackupMaker::~BackupMaker() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

BackupMaker::Status BackupMaker::start(const std::function<void()>& record_request) {
  const std::lock_guard lock(mutex_);
  if (status_.running) throw http::Problem(409, "backup_running", "a backup is already running");
  require_space();
  record_request();
  if (thread_.joinable()) thread_.join();
  status_ = {.running = true, .started_ms = wall_time_ms()};
  status_.file = store_.folder() / "backups" / ("babelring-" + store::file_time(status_.started_ms) + ".db");
  thread_ = std::thread([this, file = status_.file] { make(file); });
  return status_;
}

BackupMaker::Status BackupMaker::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void BackupMaker::require_space() const {
  std::error_code error;
  std::uintmax_t needed = spare_bytes;
  for (const char* suffix : {"", "-wal"}) {
    const auto size = std::filesystem::file_size(store_.database_file().string() + suffix, error);
    if (!error) needed += size;
  }
  if (const auto free = store_.free_bytes(); free < needed) {
    throw http::Problem(507, "disk_full", fmt::format("a backup needs {} bytes, {} are free", needed, free));
  }
}

void BackupMaker::make(const std::filesystem::path& file) {
  std::int64_t bytes = 0;
  std::string failure;
  try {
    bytes = store::back_up(store_.database_file(), file, stop_);
    spdlog::info("backup: {} with {} bytes", file.string(), bytes);
  } catch (const std::exception& error) {
    failure = error.what();
    spdlog::error("backup: {}", failure);
  }
  const std::lock_guard lock(mutex_);
  status_.bytes = bytes;
  status_.failure = std::move(failure);
  status_.finished_ms = wall_time_ms();
  status_.running = false;
}

}  // namespace babelring::artifacts

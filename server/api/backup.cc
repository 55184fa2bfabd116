#include "server/store/backup.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "server/access/audited.h"
#include "server/api/body.h"
#include "server/api/responses.h"
#include "server/api/service.h"

namespace babelring::api {
namespace {

namespace fs = std::filesystem;
constexpr std::uintmax_t spare_bytes = std::uintmax_t{64} << 20;  // disk space that a backup must leave free

/// Makes backups, one at a time, on its own thread.
class BackupMaker {
 public:
  explicit BackupMaker(Service& service) : service_(service) {}
  ~BackupMaker() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  BackupMaker(const BackupMaker&) = delete;
  BackupMaker& operator=(const BackupMaker&) = delete;

  /// Throws Problem 409 while a backup is running, 507 if the disk space does not suffice, and exceptions of `note`,
  /// which records the request before the backup starts.
  json::object start(const std::function<void()>& note) {
    const std::lock_guard lock(mutex_);
    if (running_) throw http::Problem(409, "backup_running", "a backup is already running");
    require_room();
    note();
    if (thread_.joinable()) thread_.join();
    started_ms_ = wall_time_ms();
    target_ = service_.store.folder() / "backups" / ("babelring-" + store::file_time(started_ms_) + ".db");
    finished_ms_.reset();
    detail_.clear();
    bytes_ = 0;
    running_ = true;
    thread_ = std::thread([this, target = target_] { make(target); });
    return status_locked();
  }

  json::object status() const {
    const std::lock_guard lock(mutex_);
    return status_locked();
  }

 private:
  void require_room() const {
    std::error_code error;
    std::uintmax_t needed = spare_bytes;
    for (const char* suffix : {"", "-wal"}) {
      const auto size = fs::file_size(service_.store.database_file().string() + suffix, error);
      if (!error) needed += size;
    }
    if (const auto free = service_.store.free_bytes(); free < needed) {
      throw http::Problem(507, "disk_full", fmt::format("a backup needs {} bytes, {} are free", needed, free));
    }
  }

  void make(const fs::path& target) {
    std::int64_t bytes = 0;
    std::string failure;
    try {
      bytes = store::back_up(service_.store.database_file(), target, stop_);
      spdlog::info("backup: {} with {} bytes", target.string(), bytes);
    } catch (const std::exception& error) {
      failure = error.what();
      spdlog::error("backup: {}", failure);
    }
    const std::lock_guard lock(mutex_);
    bytes_ = bytes;
    detail_ = std::move(failure);
    finished_ms_ = wall_time_ms();
    running_ = false;
  }

  json::object status_locked() const {
    const char* state = started_ms_ == 0 ? "none" : running_ ? "running" : detail_.empty() ? "done" : "failed";
    const bool any = started_ms_ != 0;
    return {{"state", state},
            {"file", any ? json::value(target_.string()) : json::value(nullptr)},
            {"bytes", bytes_},
            {"started_at", any ? time_or_null(started_ms_) : json::value(nullptr)},
            {"finished_at", time_or_null(finished_ms_)},
            {"detail", detail_}};
  }

  Service& service_;
  mutable std::mutex mutex_;
  bool running_ = false;
  fs::path target_;
  std::int64_t started_ms_ = 0, bytes_ = 0;
  std::optional<std::int64_t> finished_ms_;
  std::string detail_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

void add_backup_routes(http::Router& router, Service& service) {
  const std::string path = "/api/v1/admin/backup";
  auto maker = std::make_shared<BackupMaker>(service);  // the routes own it
  add_empty_post(router, path, http::Scope::admin, [&service, maker, path](const http::Request& request) {
    const auto note = [&] {
      access::audited_write(
          service.audit, request, 202, [](store::Database&) {}, path);
    };
    http::Response response = json_response(maker->start(note));
    response.status = 202;
    response.set("Location", path);
    return response;
  });
  router.add("GET", path, http::Scope::admin, [maker](const http::Request&) { return json_response(maker->status()); });
}

}  // namespace babelring::api

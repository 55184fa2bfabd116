#include "server/store/backup.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "nmt/base/atomic_file.h"
#include "server/store/sqlite.h"

namespace babelring::store {
namespace {

namespace fs = std::filesystem;
constexpr int pages_a_step = 512;  // 4 MiB, then a look whether to stop

/// A file that goes away again unless it was kept.
class Unfinished {
 public:
  explicit Unfinished(fs::path path) : path_(std::move(path)) { remove(); }
  ~Unfinished() {
    if (!kept_) remove();
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  const fs::path& path() const { return path_; }
  void keep_as(const fs::path& target) {
    fs::rename(path_, target);
    kept_ = true;
  }

 private:
  void remove() const {
    std::error_code ignored;
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) fs::remove(path_.string() + suffix, ignored);
  }
  fs::path path_;
  bool kept_ = false;
};

struct FinishBackup {
  void operator()(sqlite3_backup* backup) const { sqlite3_backup_finish(backup); }
};

void sync_file(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!synced) fail("backup {}: fsync: {}", path.string(), std::strerror(error));
}

void copy(Database& source, Database& target, const std::atomic<bool>& stop) {
  // The read transaction holds one state of the source; without it each commit would start the copy anew.
  source.execute("BEGIN");
  source.scalar("SELECT count(*) FROM sqlite_master");
  std::unique_ptr<sqlite3_backup, FinishBackup> backup(
      sqlite3_backup_init(target.handle(), "main", source.handle(), "main"));
  if (!backup)
    throw SqlFailure(fmt::format("backup: {}", sqlite3_errmsg(target.handle())),
                     sqlite3_extended_errcode(target.handle()));
  int code = SQLITE_OK;
  do {
    if (stop) fail("backup: the server ends");
    code = sqlite3_backup_step(backup.get(), pages_a_step);
  } while (code == SQLITE_OK);
  if (code != SQLITE_DONE) throw SqlFailure(fmt::format("backup: {}", sqlite3_errstr(code)), code);
  backup.reset();
  source.execute("ROLLBACK");
}

}  // namespace

std::int64_t back_up(const fs::path& source, const fs::path& target, const std::atomic<bool>& stop) {
  fs::create_directories(target.parent_path());
  Unfinished file(target.parent_path() / (".tmp-" + target.filename().string()));
  {
    Database from(source, Database::Mode::reader);
    Database to(file.path(), Database::Mode::plain);
    copy(from, to, stop);
    // One file, whatever mode its original was in; the server that opens it sets the mode anew.
    to.scalar("PRAGMA journal_mode = DELETE");
    const std::string verdict = to.scalar("PRAGMA quick_check(1)");
    if (verdict != "ok") fail("backup: the copy is damaged: {}", verdict);
  }
  sync_file(file.path());
  file.keep_as(target);
  sync_folder(target.parent_path());
  return static_cast<std::int64_t>(fs::file_size(target));
}

}  // namespace babelring::store

#include "server/store/backup.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "base/files.h"
#include "server/store/data_folder.h"
#include "server/store/home.h"
#include "server/store/sqlite.h"

namespace babelring::store {
namespace {

namespace fs = std::filesystem;
constexpr int pages_per_step = 512;  // 4 MiB between checks of `stop`

/// A database file with its SQLite side files. Deletes them on destruction unless they are kept.
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
  // The read transaction pins a snapshot of the source. Without it every commit would restart the copy.
  source.execute("BEGIN");
  source.scalar("SELECT count(*) FROM sqlite_master");
  std::unique_ptr<sqlite3_backup, FinishBackup> backup(
      sqlite3_backup_init(target.handle(), "main", source.handle(), "main"));
  if (!backup)
    throw SqlFailure(fmt::format("backup: {}", sqlite3_errmsg(target.handle())),
                     sqlite3_extended_errcode(target.handle()));
  int code = SQLITE_OK;
  do {
    if (stop) fail("backup: the server is stopping");
    code = sqlite3_backup_step(backup.get(), pages_per_step);
  } while (code == SQLITE_OK);
  if (code != SQLITE_DONE) throw SqlFailure(fmt::format("backup: {}", sqlite3_errstr(code)), code);
  backup.reset();
  source.execute("ROLLBACK");
}

void check_copy(Database& copy, const char* what) {
  const std::string verdict = copy.scalar("PRAGMA quick_check(1)");
  if (verdict != "ok") fail("{}: the copy is damaged: {}", what, verdict);
}

/// Copies and checks `backup`; returns its schema version.
int checked_copy(const fs::path& backup, const fs::path& target) {
  const std::string what = "restore " + backup.string();
  try {
    Database from(backup, Database::Mode::reader);
    Database to(target, Database::Mode::plain);
    copy(from, to, false);
    to.scalar("PRAGMA journal_mode = DELETE");
    check_copy(to, what.c_str());
    const int schema = std::stoi(to.scalar("PRAGMA user_version"));
    const bool ours = schema > 0 && to.scalar(
                                        "SELECT count(*) FROM sqlite_master WHERE name IN ('runs', 'steps', "
                                        "'layouts')") == "3";
    if (!ours) fail("{}: not a Babelring server database", what);
    if (schema > schema_version) {
      fail("{}: has schema {}, this program supports up to {}: use the newer program that wrote it", what, schema,
           schema_version);
    }
    return schema;
  } catch (const SqlFailure& failure) {
    fail("{}: {}", what, failure.what());
  }
}

/// Hard-links the database and its WAL to second names, so that they survive a crash at any point. Returns the second
/// path of the database.
fs::path keep_aside(const DataFolder& folder) {
  const fs::path database = folder.database();
  fs::path aside = folder.path() / ("babelring-replaced-" + file_time(wall_time_ms()) + ".db");
  for (const char* suffix : {"-wal", ""}) {
    if (fs::exists(database.string() + suffix)) {
      fs::create_hard_link(database.string() + suffix, aside.string() + suffix);
    }
  }
  sync_folder(folder.path());
  return aside;
}

}  // namespace

std::string file_time(std::int64_t time_ms) {
  std::string text = format_rfc3339(time_ms);
  std::erase_if(text, [](char c) { return c == '-' || c == ':' || c == '.'; });
  return text;
}

std::int64_t back_up(const fs::path& source, const fs::path& target, const std::atomic<bool>& stop) {
  fs::create_directories(target.parent_path());
  Unfinished file(target.parent_path() / (".tmp-" + target.filename().string()));
  {
    Database from(source, Database::Mode::reader);
    Database to(file.path(), Database::Mode::plain);
    copy(from, to, stop);
    // Makes the copy a single file, independent of the original's journal mode. The server sets its own mode later.
    to.scalar("PRAGMA journal_mode = DELETE");
    check_copy(to, "backup");
  }
  sync_file(file.path());
  file.keep_as(target);
  sync_folder(target.parent_path());
  return static_cast<std::int64_t>(fs::file_size(target));
}

Restored restore(const fs::path& data, const fs::path& backup) {
  DataFolder folder(data);
  Restored done{.database = folder.database()};
  std::error_code ignored;
  if (fs::equivalent(backup, done.database, ignored)) fail("restore: {} is the database itself", backup.string());
  Unfinished file(folder.path() / ".tmp-restore.db");
  done.schema = checked_copy(backup, file.path());
  done.bytes = static_cast<std::int64_t>(fs::file_size(file.path()));
  sync_file(file.path());
  if (fs::exists(done.database)) done.replaced = keep_aside(folder);
  // SQLite would apply a leftover WAL to the restored database.
  for (const char* suffix : {"-wal", "-shm"}) fs::remove(done.database.string() + suffix);
  sync_folder(folder.path());
  file.keep_as(done.database);
  sync_folder(folder.path());
  folder.mark_clean();
  return done;
}

}  // namespace babelring::store

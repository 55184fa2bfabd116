#include "server/store/sqlite.h"

#include <sqlite3.h>

#include <cmath>
#include <limits>

namespace babelring::store {

SqlFailure::SqlFailure(const std::string& message, int code) : Failure(message), code_(code) {}

bool SqlFailure::full() const {
  return (code_ & 0xff) == SQLITE_FULL || code_ == SQLITE_IOERR_SHMSIZE;
}

namespace {

/// The connection's last error. `what` precedes it and `sql`, if not empty, follows.
SqlFailure failure_of(sqlite3* database, const std::string& what, std::string_view sql) {
  const int code = sqlite3_extended_errcode(database);
  // SQLite says "disk I/O error" where the file cannot grow that its connections share (babelring.db-shm).
  const std::string error = code == SQLITE_IOERR_SHMSIZE ? "no space left: 32 KiB needed beside the database"
                                                         : std::string(sqlite3_errmsg(database));
  return {fmt::format("{}: {}{}", what, error, sql.empty() ? "" : fmt::format(" (in: {})", sql)), code};
}

}  // namespace

Statement::~Statement() {
  if (handle_ == nullptr) return;
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
}

void Statement::check(int code) const {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
  sqlite3* database = sqlite3_db_handle(handle_);
  throw failure_of(database, "database", sqlite3_sql(handle_));
}

bool Statement::step() {
  const int code = sqlite3_step(handle_);
  check(code);
  return code == SQLITE_ROW;
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

void Statement::reset() {
  sqlite3_reset(handle_);
}

void Statement::bind_one(int index, std::int64_t value) {
  check(sqlite3_bind_int64(handle_, index, value));
}

void Statement::bind_one(int index, double value) {
  check(sqlite3_bind_double(handle_, index, value));
}

void Statement::bind_one(int index, std::string_view text) {
  // A null pointer would bind NULL instead of an empty string.
  check(sqlite3_bind_text64(handle_, index, text.data() ? text.data() : "", text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void Statement::bind_one(int index, const Blob& blob) {
  check(sqlite3_bind_blob64(handle_, index, blob.bytes.data() ? blob.bytes.data() : "", blob.bytes.size(),
                            SQLITE_STATIC));
}

void Statement::bind_one(int index, std::nullopt_t) {
  check(sqlite3_bind_null(handle_, index));
}

Row& Row::operator>>(std::int64_t& value) {
  value = sqlite3_column_int64(statement_, column_++);
  return *this;
}

Row& Row::operator>>(int& value) {
  value = sqlite3_column_int(statement_, column_++);
  return *this;
}

Row& Row::operator>>(bool& value) {
  value = sqlite3_column_int64(statement_, column_++) != 0;
  return *this;
}

Row& Row::operator>>(double& value) {
  value = std::numeric_limits<double>::quiet_NaN();
  if (!skip_null()) value = sqlite3_column_double(statement_, column_++);
  return *this;
}

Row& Row::operator>>(std::string& value) {
  std::string_view view;
  *this >> view;
  value = view;
  return *this;
}

Row& Row::operator>>(std::string_view& value) {
  const void* data = sqlite3_column_blob(statement_, column_);
  const int size = sqlite3_column_bytes(statement_, column_++);
  value = data == nullptr ? std::string_view()
                          : std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(size));
  return *this;
}

bool Row::skip_null() {
  const bool null = sqlite3_column_type(statement_, column_) == SQLITE_NULL;
  if (null) ++column_;
  return null;
}

void Row::require_end() const {
  const int columns = sqlite3_column_count(statement_);
  if (column_ != columns) fail("database: {} of {} columns read (in: {})", column_, columns, sqlite3_sql(statement_));
}

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

void Database::Finalize::operator()(sqlite3_stmt* handle) const {
  sqlite3_finalize(handle);
}

Database::Database(const std::filesystem::path& file, Mode mode) {
  const bool writer = mode == Mode::writer;
  const int flags = mode == Mode::reader ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(file.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(raw);
  if (code != SQLITE_OK)
    throw SqlFailure(fmt::format("open database {}: {}", file.string(), sqlite3_errstr(code)), code);
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_busy_timeout(raw, busy_timeout_ms);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // SQLite detects a file that is not a database only at the first read.
  if (sqlite3_exec(raw, "SELECT count(*) FROM sqlite_master", nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw failure_of(raw, "open database " + file.string(), "");
  }
  execute("PRAGMA mmap_size = 0; PRAGMA foreign_keys = ON; PRAGMA cache_size = -4096");
  if (writer) {
    execute(
        "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = "
        "2000");
  } else if (mode == Mode::reader) {
    sqlite3_db_config(raw, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    execute("PRAGMA wal_autocheckpoint = 0; PRAGMA query_only = ON; PRAGMA cache_size = -1024");  // small caches: there
                                                                                                  // are many readers
  }
}

void Database::set_busy_timeout(int ms) {
  sqlite3_busy_timeout(handle_.get(), ms);
}

Database::~Database() {
  statements_.clear();  // must be finalized before the connection closes
}

Statement Database::prepare(std::string_view sql) {
  auto& cached = statements_[std::string(sql)];
  if (!cached) {
    sqlite3_stmt* raw = nullptr;
    const int code = sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
    if (code != SQLITE_OK) throw failure_of(handle_.get(), "database", sql);
    cached.reset(raw);
  }
  if (sqlite3_stmt_busy(cached.get())) fail("database: statement is already in use: {}", sql);
  return Statement(cached.get());
}

void Database::interrupt_when(std::function<bool()> condition) {
  constexpr int instructions = 10'000;  // SQLite VM instructions between polls
  interrupt_ = std::move(condition);
  if (!interrupt_) {
    sqlite3_progress_handler(handle_.get(), 0, nullptr, nullptr);
    return;
  }
  const auto ask = [](void* database) { return static_cast<Database*>(database)->interrupt_() ? 1 : 0; };
  sqlite3_progress_handler(handle_.get(), instructions, ask, this);
}

void Database::execute(const std::string& sql) {
  if (sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw failure_of(handle_.get(), "database", sql);
  }
}

std::string Database::scalar(const std::string& sql) {
  Statement statement = prepare(sql);
  std::string value;
  if (statement.step()) statement.row() >> value;
  return value;
}

Transaction::Transaction(Database& database) : database_(database) {
  database_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const SqlFailure&) {
    // SQLite has already rolled back after an error.
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace babelring::store

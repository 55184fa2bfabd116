#include "server/store/home.h"

#include <spdlog/spdlog.h>

#include <array>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "server/store/data_folder.h"
#include "server/store/logs.h"
#include "server/store/migrations.h"

namespace babelring::store {

static_assert(migrations.size() == schema_version);

void migrate(Database& writer) {
  const int found = std::stoi(writer.scalar("PRAGMA user_version"));
  if (found > schema_version) {
    fail("database has schema {}, this program supports up to {}: use the newer program that wrote it", found,
         schema_version);
  }
  if (found == schema_version) return;
  Transaction transaction(writer);
  for (int version = found; version < schema_version; ++version) {
    writer.execute(migrations[static_cast<std::size_t>(version)]);
  }
  LogWriter(writer).pack_all();
  writer.execute(fmt::format("PRAGMA user_version = {}", schema_version));
  transaction.commit();
}

namespace {

namespace fs = std::filesystem;

/// Where a table keeps absolute paths.
struct PathColumn {
  std::string_view table, column;
  std::int64_t MovedRows::* count;  // null: not counted
};
constexpr std::array<PathColumn, 5> path_columns = {{{"checkpoints", "folder", &MovedRows::checkpoints},
                                                     {"launches", "folder", &MovedRows::runs},
                                                     {"artifacts", "folder", &MovedRows::artifacts},
                                                     {"launches", "resume_folder", nullptr},
                                                     {"attempts", "resumed_from", nullptr}}};

/// Renames in one column; returns the number of rows.
std::int64_t rename_column(Database& writer, std::string_view table, std::string_view column, const std::string& from,
                           const std::string& to) {
  const std::string sql = fmt::format(
      "UPDATE {0} SET {1} = ?2 || substr({1}, length(?1) + 1) "
      "WHERE {1} = ?1 OR substr({1}, 1, length(?1) + 1) = ?1 || '/' RETURNING 1",
      table, column);
  Statement update = writer.prepare(sql);
  update.bind(from, to);
  std::int64_t rows = 0;
  while (update.step()) ++rows;
  return rows;
}

std::string without_final_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string describe(const MovedRows& rows, const std::string& from, const std::string& to) {
  return fmt::format("{} checkpoints, {} runs and {} artifacts below {} are now looked for below {}", rows.checkpoints,
                     rows.runs, rows.artifacts, from, to);
}

bool is_below_one_of(const std::vector<fs::path>& roots, const std::string& folder) {
  for (const fs::path& root : roots) {
    if (folder == root.string() || folder.starts_with(root.string() + '/')) return true;
  }
  return false;
}

}  // namespace

MovedRows move_paths(Database& writer, const std::string& from, const std::string& to) {
  MovedRows rows;
  for (const PathColumn& path : path_columns) {
    const std::int64_t renamed = rename_column(writer, path.table, path.column, from, to);
    if (path.count != nullptr) rows.*path.count += renamed;
  }
  // Earlier moves lead to the new place at once. One that led away from it is over: the folder is back.
  rename_column(writer, "moves", "new_folder", from, to);
  writer.prepare("DELETE FROM moves WHERE old_folder = new_folder OR old_folder = ?").bind(to).run();
  writer.prepare("INSERT OR REPLACE INTO moves VALUES (?, ?)").bind(from, to).run();
  return rows;
}

std::string moved_path(Database& database, const std::string& path) {
  Statement search = database.prepare(
      "SELECT new_folder || substr(?1, length(old_folder) + 1) FROM moves "
      "WHERE old_folder = ?1 OR substr(?1, 1, length(old_folder) + 1) = old_folder || '/' "
      "ORDER BY length(old_folder) DESC LIMIT 1");
  std::string now;
  return search.bind(path).next(now) ? now : path;
}

void follow_data_folder(Database& writer, const fs::path& data, const std::vector<fs::path>& roots) {
  const std::string now = data.string(), before = writer.scalar("SELECT folder FROM home");
  if (before == now) return;
  writer.prepare("INSERT INTO home(one, folder) VALUES (1, ?1) ON CONFLICT DO UPDATE SET folder = ?1").bind(now).run();
  if (before.empty()) return;
  std::error_code ignored;
  const bool still_there = fs::exists(before, ignored);
  if (still_there && is_below_one_of(roots, before)) return;
  if (still_there && !fs::exists(data / "runs", ignored)) {
    spdlog::warn(
        "the data folder was {} and is {}, without runs: paths of runs below the old one stay as they are; if they "
        "have moved, too, stop the server and run it with --moved {}={}",
        before, now, before, now);
    return;
  }
  spdlog::info("the data folder has moved: {}", describe(move_paths(writer, before, now), before, now));
}

std::string exchange_world(Database& writer, const std::string& world) {
  const std::string before = writer.scalar("SELECT world FROM home");
  writer.prepare("UPDATE home SET world = ?").bind(world).run();
  return before;
}

std::string move_folder(const fs::path& data, const std::string& move) {
  const auto middle = move.find("=/");
  const std::string from = without_final_slash(move.substr(0, middle));
  if (middle == std::string::npos || !from.starts_with('/') || from == "/") {
    throw UsageFailure(fmt::format("--moved: expected /OLD=/NEW, two absolute paths, found '{}'", printable(move)));
  }
  std::error_code error;
  const std::string to = fs::canonical(move.substr(middle + 1), error).string();
  if (error || !fs::is_directory(to, error)) {
    throw UsageFailure(fmt::format("--moved: {} is no folder", printable(move.substr(middle + 1))));
  }
  if (from == to || to.starts_with(from + '/') || from.starts_with(to + '/')) {
    throw UsageFailure(fmt::format("--moved: {} and {} are one inside the other", printable(from), printable(to)));
  }
  if (!fs::is_directory(data, error)) fail("data folder {} does not exist", data.string());
  DataFolder folder(data);
  folder.require_database(false);
  if (!folder.has_database()) fail("data folder {} has no database", folder.path().string());
  MovedRows rows;
  {
    Database writer(folder.database(), Database::Mode::writer);
    migrate(writer);
    Transaction transaction(writer);
    rows = move_paths(writer, from, to);
    if (rows.checkpoints + rows.runs + rows.artifacts == 0) {
      const std::string newest = writer.scalar("SELECT folder FROM checkpoints ORDER BY checkpoint DESC LIMIT 1");
      fail("--moved: no stored path lies below {}; {}", from,
           newest.empty() ? "there is no checkpoint" : "the newest checkpoint's is " + newest);
    }
    transaction.commit();
  }
  if (!folder.was_unclean()) folder.mark_clean();
  return describe(rows, from, to);
}

}  // namespace babelring::store

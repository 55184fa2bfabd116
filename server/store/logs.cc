#include "server/store/logs.h"

#include <algorithm>

#include "server/store/log_blocks.h"

namespace babelring::store {
namespace {

constexpr std::size_t max_scanned = std::size_t{64} << 20;

/// A read transaction over several statements, so that lines packed in the meantime are read exactly once.
class Snapshot {
 public:
  explicit Snapshot(Database& database) : database_(database) { database_.execute("BEGIN"); }
  ~Snapshot() {
    try {
      database_.execute("ROLLBACK");
    } catch (const SqlFailure&) {
      // SQLite has already ended the transaction after an error.
    }
  }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

 private:
  Database& database_;
};

/// Collects the lines that match a filter, up to its limits.
class LogScan {
 public:
  LogScan(Reader& reader, std::int64_t run, const LogFilter& filter)
      : database_(reader.database),
        run_(run),
        filter_(filter),
        levels_(filter.level.empty() ? ~0 : level_bit(filter.level)) {}

  LogPage forward() {
    page_.next = filter_.after;
    Statement blocks = database_.prepare(
        "SELECT first, last, raw_bytes, lowest_rank, highest_rank, levels, data FROM log_blocks WHERE run = ? AND last "
        "> ? ORDER BY first");
    blocks.bind(run_, filter_.after);
    while (!full_ && blocks.step()) {
      scan_block(blocks);
      if (!full_) page_.next = blocks.integer(1);
    }
    Statement lines = database_.prepare(
        "SELECT line, attempt, rank, time_ms, level, text FROM log_lines WHERE run = ? AND line > ? ORDER BY line");
    lines.bind(run_, filter_.after);
    while (!full_ && lines.step()) scan_line(lines);
    return std::move(page_);
  }

  LogPage backward() {
    page_.next = newest();
    Statement lines = database_.prepare(
        "SELECT line, attempt, rank, time_ms, level, text FROM log_lines WHERE run = ? ORDER BY line DESC");
    lines.bind(run_);
    while (!full_ && lines.step()) scan_line(lines);
    Statement blocks = database_.prepare(
        "SELECT first, last, raw_bytes, lowest_rank, highest_rank, levels, data FROM log_blocks WHERE run = ? ORDER BY "
        "first DESC");
    blocks.bind(run_);
    while (!full_ && blocks.step()) scan_block(blocks);
    std::reverse(page_.lines.begin(), page_.lines.end());
    return std::move(page_);
  }

 private:
  std::int64_t newest() {
    Statement row = database_.prepare(
        "SELECT max(coalesce((SELECT max(line) FROM log_lines WHERE run = ?1), 0), coalesce((SELECT max(last) FROM "
        "log_blocks WHERE run = ?1), 0))");
    row.bind(run_);
    row.step();
    return row.integer(0);
  }

  bool matches(const LogLine& line) const {
    return (!filter_.rank || line.rank == *filter_.rank) && (filter_.level.empty() || line.level == filter_.level) &&
           (filter_.text.empty() || line.text.find(filter_.text) != std::string_view::npos);
  }

  void take(std::int64_t number, const LogLine& line) {
    if (!filter_.tail) page_.next = number;
    scanned_ += line.text.size();
    if (matches(line)) {
      bytes_ += line.text.size();
      page_.lines.push_back(
          {number, line.attempt, line.rank, line.time_ms, std::string(line.level), std::string(line.text)});
    }
    full_ = static_cast<std::int64_t>(page_.lines.size()) >= filter_.limit || bytes_ >= filter_.max_bytes ||
            scanned_ >= max_scanned;
  }

  void scan_line(const Statement& row) {
    take(row.integer(0), {row.integer(1), row.integer(2), row.integer(3), row.blob(4), row.blob(5)});
  }

  void scan_block(const Statement& row) {
    const bool hopeless = (filter_.rank && (*filter_.rank < row.integer(3) || *filter_.rank > row.integer(4))) ||
                          (row.integer(5) & levels_) == 0;
    if (hopeless) return;
    const std::string raw = unpack_block(row.blob(6), static_cast<std::size_t>(row.integer(2)));
    std::vector<LogLine> lines;
    visit_lines(raw, [&](const LogLine& line) {
      lines.push_back(line);
      return true;
    });
    const std::int64_t first = row.integer(0);
    const auto count = static_cast<std::int64_t>(lines.size());
    for (std::int64_t i = 0; !full_ && i < count; ++i) {
      const std::int64_t place = filter_.tail ? count - 1 - i : i;
      if (first + place > filter_.after) take(first + place, lines[static_cast<std::size_t>(place)]);
    }
  }

  Database& database_;
  std::int64_t run_;
  const LogFilter& filter_;
  std::int64_t levels_;
  LogPage page_;
  std::size_t bytes_ = 0, scanned_ = 0;
  bool full_ = false;
};

}  // namespace

LogPage read_logs(Reader& reader, std::int64_t run, const LogFilter& filter) {
  const Snapshot snapshot(reader.database);
  LogScan scan(reader, run, filter);
  return filter.tail ? scan.backward() : scan.forward();
}

}  // namespace babelring::store

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
      const std::int64_t last = scan_block(blocks.row());
      if (!full_) page_.next = last;
    }
    Statement lines = database_.prepare(
        "SELECT line, attempt, rank, time_ms, level, text FROM log_lines WHERE run = ? AND line > ? ORDER BY line");
    lines.bind(run_, filter_.after);
    while (!full_ && lines.step()) scan_line(lines.row());
    return std::move(page_);
  }

  LogPage backward() {
    page_.next = newest();
    Statement lines = database_.prepare(
        "SELECT line, attempt, rank, time_ms, level, text FROM log_lines WHERE run = ? ORDER BY line DESC");
    lines.bind(run_);
    while (!full_ && lines.step()) scan_line(lines.row());
    Statement blocks = database_.prepare(
        "SELECT first, last, raw_bytes, lowest_rank, highest_rank, levels, data FROM log_blocks WHERE run = ? ORDER BY "
        "first DESC");
    blocks.bind(run_);
    while (!full_ && blocks.step()) scan_block(blocks.row());
    std::reverse(page_.lines.begin(), page_.lines.end());
    return std::move(page_);
  }

 private:
  std::int64_t newest() {
    return database_
        .prepare(
            "SELECT max(coalesce((SELECT max(line) FROM log_lines WHERE run = ?1), 0), "
            "coalesce((SELECT max(last) FROM log_blocks WHERE run = ?1), 0))")
        .bind(run_)
        .value<std::int64_t>();
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

  void scan_line(Row row) {
    std::int64_t number = 0;
    LogLine line;
    row >> number >> line.attempt >> line.rank >> line.time_ms >> line.level >> line.text;
    take(number, line);
  }

  /// Returns the number of the block's last line.
  std::int64_t scan_block(Row row) {
    std::int64_t first = 0, last = 0, raw_bytes = 0, lowest_rank = 0, highest_rank = 0, levels = 0;
    row >> first >> last >> raw_bytes >> lowest_rank >> highest_rank >> levels;
    const bool excluded =
        (filter_.rank && (*filter_.rank < lowest_rank || *filter_.rank > highest_rank)) || (levels & levels_) == 0;
    if (excluded) return last;
    std::string_view data;  // read from the disk only now
    row >> data;
    const std::string raw = unpack_block(data, static_cast<std::size_t>(raw_bytes));
    std::vector<LogLine> lines;
    visit_lines(raw, [&](const LogLine& line) {
      lines.push_back(line);
      return true;
    });
    const auto count = static_cast<std::int64_t>(lines.size());
    for (std::int64_t i = 0; !full_ && i < count; ++i) {
      const std::int64_t place = filter_.tail ? count - 1 - i : i;
      if (first + place > filter_.after) take(first + place, lines[static_cast<std::size_t>(place)]);
    }
    return last;
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

#include "server/store/logs.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/failure.h"

namespace babelring::store {
namespace {

constexpr int compression_level = 3;
constexpr std::array<std::string_view, 4> known_levels = {"debug", "info", "warn", "error"};

#pragma pack(push, 1)
struct LineHead {
  std::int64_t time_ms;
  std::int32_t attempt, rank;
  std::uint32_t text_bytes;
  std::uint8_t level_bytes;
};
#pragma pack(pop)
static_assert(sizeof(LineHead) == 21);

}  // namespace

int level_bit(std::string_view level) {
  const auto found = std::find(known_levels.begin(), known_levels.end(), level);
  return 1 << (found - known_levels.begin());
}

void LogBlock::add(const LogLine& line) {
  const std::string_view level = line.level.substr(0, 255);
  const LineHead head{line.time_ms, static_cast<std::int32_t>(line.attempt), static_cast<std::int32_t>(line.rank),
                      static_cast<std::uint32_t>(line.text.size()), static_cast<std::uint8_t>(level.size())};
  raw_.append(reinterpret_cast<const char*>(&head), sizeof head);
  raw_.append(level).append(line.text);
  lowest_rank_ = lines_ == 0 ? line.rank : std::min(lowest_rank_, line.rank);
  highest_rank_ = std::max(highest_rank_, line.rank);
  levels_ |= level_bit(line.level);
  ++lines_;
}

std::string LogBlock::compressed() const {
  std::string packed(ZSTD_compressBound(raw_.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), raw_.data(), raw_.size(), compression_level);
  if (ZSTD_isError(size) != 0) fail("log block: zstd: {}", ZSTD_getErrorName(size));
  packed.resize(size);
  return packed;
}

std::string unpack_block(std::string_view compressed, std::size_t raw_bytes) {
  std::string raw(raw_bytes, '\0');
  const std::size_t size = ZSTD_decompress(raw.data(), raw.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(size) != 0) fail("log block: zstd: {}", ZSTD_getErrorName(size));
  if (size != raw_bytes) fail("log block: unpacks to {} bytes, expected {}", size, raw_bytes);
  return raw;
}

void visit_lines(std::string_view raw, const std::function<bool(const LogLine&)>& visit) {
  while (!raw.empty()) {
    LineHead head;
    if (raw.size() < sizeof head) fail("log block: {} bytes left, a line's head has {}", raw.size(), sizeof head);
    std::memcpy(&head, raw.data(), sizeof head);
    raw.remove_prefix(sizeof head);
    const std::size_t bytes = std::size_t{head.level_bytes} + head.text_bytes;
    if (raw.size() < bytes) fail("log block: {} bytes left, a line has {}", raw.size(), bytes);
    const LogLine line{head.attempt, head.rank, head.time_ms, raw.substr(0, head.level_bytes),
                       raw.substr(head.level_bytes, head.text_bytes)};
    raw.remove_prefix(bytes);
    if (!visit(line)) return;
  }
}

namespace {

constexpr std::size_t max_tails = 1024;  // cached
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
    return (!filter_.rank || line.rank == *filter_.rank) && (!filter_.attempt || line.attempt == *filter_.attempt) &&
           (filter_.level.empty() || line.level == filter_.level) &&
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

LogWriter::Tail& LogWriter::tail(std::int64_t run) {
  if (const auto known = tails_.find(run); known != tails_.end()) return known->second;
  if (tails_.size() >= max_tails) tails_.clear();
  std::int64_t lines = 0, bytes = 0, newest = 0;
  database_
      .prepare(
          "SELECT count(*), coalesce(sum(length(CAST(text AS BLOB))), 0), coalesce(max(line), 0) FROM log_lines "
          "WHERE run = ?")
      .bind(run)
      .next(lines, bytes, newest);
  const auto packed =
      database_.prepare("SELECT coalesce(max(last), 0) FROM log_blocks WHERE run = ?").bind(run).value<std::int64_t>();
  return tails_[run] = {.next = std::max(newest, packed) + 1,
                        .lines = static_cast<std::size_t>(lines),
                        .bytes = static_cast<std::size_t>(bytes)};
}

std::int64_t LogWriter::append(std::int64_t run, const LogLine& line) {
  Tail& end = tail(run);
  const std::int64_t number = end.next++;
  database_
      .prepare("INSERT INTO log_lines(run, line, attempt, rank, time_ms, level, text) VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(run, number, line.attempt, line.rank, line.time_ms, line.level, line.text)
      .run();
  ++end.lines;
  end.bytes += line.text.size();
  if (end.lines >= max_lines || end.bytes >= max_bytes) pack(run);
  return number;
}

void LogWriter::pack_all() {
  const auto runs =
      database_
          .prepare(
              "SELECT run FROM log_lines GROUP BY run HAVING count(*) >= ? OR sum(length(CAST(text AS BLOB))) >= ?")
          .bind(static_cast<std::int64_t>(max_lines), static_cast<std::int64_t>(max_bytes))
          .all<std::int64_t>();
  for (const std::int64_t run : runs) pack(run);
}

void LogWriter::pack(std::int64_t run) {
  {
    Statement rows = database_.prepare(
        "SELECT line, attempt, rank, time_ms, level, text FROM log_lines WHERE run = ? ORDER BY line");
    rows.bind(run);
    LogBlock block;
    std::int64_t first = 0, number = 0;
    LogLine line;
    while (rows.next(number, line.attempt, line.rank, line.time_ms, line.level, line.text)) {
      if (block.lines() == 0) first = number;
      block.add(line);
      if (block.lines() < max_lines && block.raw_bytes() < max_bytes) continue;
      store_block(run, first, block);
      block = LogBlock();
    }
    if (block.lines() > 0) store_block(run, first, block);
  }
  database_.prepare("DELETE FROM log_lines WHERE run = ?").bind(run).run();
  drop_oldest(run);
  if (const auto known = tails_.find(run); known != tails_.end()) known->second.lines = known->second.bytes = 0;
}

void LogWriter::store_block(std::int64_t run, std::int64_t first, const LogBlock& block) {
  const std::string packed = block.compressed();
  database_
      .prepare(
          "INSERT INTO log_blocks(run, first, last, raw_bytes, bytes, lowest_rank, highest_rank, levels, data) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(run, first, first + static_cast<std::int64_t>(block.lines()) - 1,
            static_cast<std::int64_t>(block.raw_bytes()), static_cast<std::int64_t>(packed.size()), block.lowest_rank(),
            block.highest_rank(), block.levels(), Blob{packed})
      .run();
}

void LogWriter::drop_oldest(std::int64_t run) {
  // Always keep the newest block: line numbering continues from it.
  database_
      .prepare(
          "DELETE FROM log_blocks WHERE run = ?1 AND first < (SELECT max(first) FROM log_blocks WHERE run = ?1) AND "
          "last <= (SELECT max(last) FROM (SELECT last, sum(bytes) OVER (ORDER BY first DESC) AS sum FROM log_blocks "
          "WHERE run = ?1) WHERE sum > coalesce((SELECT max_log_bytes FROM retention WHERE run = ?1), ?2))")
      .bind(run, default_limit_bytes)
      .run();
}

LogPage read_logs(Reader& reader, std::int64_t run, const LogFilter& filter) {
  const Snapshot snapshot(reader.database);
  LogScan scan(reader, run, filter);
  return filter.tail ? scan.backward() : scan.forward();
}

std::string last_error(Reader& reader, std::int64_t run) {
  return reader.database
      .prepare("SELECT text FROM log_lines WHERE run = ? AND level = 'error' ORDER BY line DESC LIMIT 1")
      .bind(run)
      .value<std::string>();
}

}  // namespace babelring::store

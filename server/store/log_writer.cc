#include "server/store/log_writer.h"

#include <vector>

namespace babelring::store {
namespace {

constexpr std::size_t max_tails = 1024;  // cached

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

}  // namespace babelring::store

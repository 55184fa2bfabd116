#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/records.h"

namespace babelring {

/// FOLDER/attempt-1/rank-0.jsonl
std::filesystem::path spool_path(const std::filesystem::path& folder, std::int64_t attempt, std::int64_t rank);

/// Appends one rank's records to its spool file, one JSON object a line. A line is in the kernel's hands when append()
/// returns, so it survives the process. While the file cannot be written (a full disk), lines are kept in memory, up to
/// a limit, behind which records are dropped. Not thread-safe; a second writer of the same file is refused.
class SpoolWriter {
 public:
  /// Opens or makes the file. A last line torn by a crash is dropped. Throws Failure (file, system error).
  explicit SpoolWriter(const std::filesystem::path& file, std::size_t max_kept_bytes = std::size_t{8} << 20,
                       std::chrono::milliseconds between_trials = std::chrono::milliseconds(1000));
  ~SpoolWriter();
  SpoolWriter(const SpoolWriter&) = delete;
  SpoolWriter& operator=(const SpoolWriter&) = delete;

  /// What the next record's sequence must be: one more than the last one's that was not dropped.
  std::int64_t next_sequence() const { return next_sequence_; }

  /// Writes what is kept, then the record, or keeps it. Drops it if memory has no room: a step or a log record if three
  /// quarters of the limit are used, so that the rarer ones find room.
  void append(const Record& record);
  /// Writes what is kept, as far as the file can be written now.
  void write_kept();

  /// Why the file could not be written at the last trial; empty: it could.
  const std::string& trouble() const { return trouble_; }
  /// Records dropped so far.
  std::int64_t dropped() const { return dropped_; }
  /// The oldest records in memory, within the limits, but at least one if there is one.
  std::vector<Record> kept(std::size_t max_records, std::size_t max_bytes) const;
  /// The server has the records up to `sequence`: those of them that are in memory need not reach the file.
  void forget_kept(std::int64_t sequence);
  std::int64_t kept_records() const { return static_cast<std::int64_t>(kept_.size()); }

 private:
  struct Line {
    std::int64_t sequence;
    std::string text;
  };
  void recover();
  void try_kept();
  bool write_line(const std::string& line);
  bool room_for(const Record& record, std::size_t bytes) const;
  void drop_first();

  std::filesystem::path file_;
  std::size_t max_kept_bytes_;
  std::chrono::milliseconds between_trials_;
  std::deque<Line> kept_;
  std::size_t kept_bytes_ = 0;
  SteadyClock::time_point next_trial_;
  std::string trouble_;
  std::int64_t dropped_ = 0;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::int64_t next_sequence_ = 1;
};

/// Reads whole lines of a spool file from where the server has acknowledged them. That offset is kept in a small file
/// beside it, rank-0.ack; where it is absent or wrong, everything is read again (the server drops repeats).
/// May read while a SpoolWriter appends. Not thread-safe.
class SpoolReader {
 public:
  /// The file need not exist yet.
  explicit SpoolReader(std::filesystem::path file);

  struct Batch {
    std::vector<Record> records;  // of one run, attempt, rank and host
    std::int64_t lines = 0;       // consumed, damaged ones included
    std::int64_t end = 0;         // offset after the last line
  };
  /// The next unacknowledged records: at least one if there is any, else within both limits. A line that is no record
  /// is skipped with a logged warning. Throws Failure if the file cannot be read.
  Batch next(std::size_t max_records, std::size_t max_bytes);

  /// The server has all of `batch`.
  void acknowledge(const Batch& batch);
  /// Writes the acknowledged offset, if it has changed since. One that cannot be written is written next time: without
  /// it the server gets, and drops, repeats.
  void save_acknowledged();

  /// Whole lines not yet acknowledged.
  std::int64_t remaining();
  const std::filesystem::path& file() const { return file_; }

 private:
  /// Whole lines from the acknowledged offset, at most about `max_bytes` but at least one if there is one.
  std::string read_lines(std::size_t max_bytes);

  std::filesystem::path file_, acknowledged_file_;
  std::int64_t acknowledged_ = 0, saved_ = 0;
};

}  // namespace babelring

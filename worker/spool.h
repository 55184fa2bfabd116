#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nmt/base/records.h"

namespace babelring {

/// FOLDER/attempt-1/rank-0.jsonl
std::filesystem::path spool_path(const std::filesystem::path& folder, std::int64_t attempt, std::int64_t rank);

/// Appends one rank's records to its spool file, one JSON object a line. A line is in the kernel's hands when append()
/// returns, so it survives the process. Not thread-safe; a second writer of the same file is refused.
class SpoolWriter {
 public:
  /// Opens or makes the file. A last line torn by a crash is dropped. Throws Failure (file, system error).
  explicit SpoolWriter(const std::filesystem::path& file);
  ~SpoolWriter();
  SpoolWriter(const SpoolWriter&) = delete;
  SpoolWriter& operator=(const SpoolWriter&) = delete;

  /// What the next record's sequence must be: lines in the file + 1.
  std::int64_t next_sequence() const { return next_sequence_; }

  /// Throws Failure if the disk is full; the file then ends with the last whole line.
  void append(const Record& record);

 private:
  void recover();
  std::filesystem::path file_;
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
  /// Writes the acknowledged offset, if it has changed since.
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

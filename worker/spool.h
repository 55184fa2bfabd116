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
#include "base/result.h"

namespace babelring {

/// FOLDER/attempt-1/rank-0.jsonl
std::filesystem::path spool_path(const std::filesystem::path& folder, std::int64_t attempt, std::int64_t rank);

/// Limits of a spool.
struct SpoolLimits {
  /// Limit of both parts of the spool together, as far as the server has confirmed them; 0: none. When the file reaches
  /// half of it, and the older part (rank-0.old.jsonl) is confirmed, the file takes the place of the older part and a
  /// new one begins.
  std::int64_t max_bytes = 0;
  std::size_t max_kept_bytes = std::size_t{8} << 20;  // memory for lines that cannot be written
  std::chrono::milliseconds between_trials{1000};     // min time between attempts to write after an error
};

/// Appends one rank's records to its spool file, one JSON object per line. append() hands the line to the kernel before
/// it returns, so the line survives a crash of the process. While the file cannot be written (full disk), lines are
/// kept in memory up to a limit, and further records are dropped. Not thread-safe. Locks the file against a second
/// writer.
class SpoolWriter {
 public:
  /// Opens or creates the file and drops an incomplete last line. Throws Failure (file, system error).
  explicit SpoolWriter(const std::filesystem::path& file, SpoolLimits limits = {});
  ~SpoolWriter();
  SpoolWriter(const SpoolWriter&) = delete;
  SpoolWriter& operator=(const SpoolWriter&) = delete;

  /// The sequence number that the next record must have. Dropped records do not consume one.
  std::int64_t next_sequence() const { return next_sequence_; }

  /// Writes the kept lines, then the record. If the file cannot be written, keeps the record, or drops it at the memory
  /// limit. Step and log records may use only three quarters of the limit, which leaves space for rarer records.
  void append(const Record& record);
  /// Tries now to write the kept lines.
  void write_kept();

  /// The outcome of the last write to the file.
  const Status& last_write() const { return last_write_; }
  /// Records dropped so far.
  std::int64_t dropped() const { return dropped_; }
  /// The oldest kept records, within both limits, but at least one if any is kept.
  std::vector<Record> kept(std::size_t max_records, std::size_t max_bytes) const;
  /// Forgets the kept records up to `sequence`. The server has them, so they need not reach the file.
  void forget_kept(std::int64_t sequence);
  std::int64_t kept_records() const { return static_cast<std::int64_t>(kept_.size()); }

 private:
  struct Line {
    std::int64_t sequence;
    std::string text;
  };
  void recover();
  /// Begins a new file, if the present one is large enough and the older part is confirmed. On an error it goes on with
  /// the present one.
  void rotate_if_due();
  void try_kept();
  bool write_line(const std::string& line);
  bool room_for(const Record& record, std::size_t bytes) const;
  void drop_first();

  std::filesystem::path file_;
  SpoolLimits limits_;
  std::deque<Line> kept_;
  std::size_t kept_bytes_ = 0;
  SteadyClock::time_point next_trial_;
  Status last_write_;
  std::int64_t dropped_ = 0;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::int64_t next_sequence_ = 1;
  std::int64_t older_sequence_ = 0;  // of the last record in the older part; 0: none
};

/// True if a process has the spool open for writing. False if there is no such file.
bool has_writer(const std::filesystem::path& spool);

/// Reads complete lines of a spool, its older part first, starting at the acknowledged offset. rank-0.ack in the same
/// folder stores "OFFSET SEQUENCE": the end of the last acknowledged line and that record's sequence, which tells the
/// part. If that file is absent or invalid, all lines are read again (the server drops duplicates). May read while a
/// SpoolWriter, also one of another process, appends and rotates. Not thread-safe.
class SpoolReader {
 public:
  /// The file need not exist yet.
  explicit SpoolReader(std::filesystem::path file);

  struct Batch {
    std::vector<Record> records;  // all of the same run, attempt, rank and host
    std::int64_t lines = 0;       // lines consumed, including damaged ones
    std::int64_t end = 0;         // file offset after the last line
    std::int64_t sequence = 0;    // of the last line; 0: it is damaged
  };
  /// The next unacknowledged records, within both limits, but at least one if there is any. Skips a damaged line and
  /// logs a warning. Throws Failure if the file cannot be read.
  Batch next(std::size_t max_records, std::size_t max_bytes);

  /// Moves the acknowledged offset to the end of `batch`.
  void acknowledge(const Batch& batch);
  /// Stores the acknowledged offset, if it changed. Ignores write errors: without the offset the server gets duplicates
  /// and drops them.
  void save_acknowledged();

  /// Number of complete lines that are not acknowledged.
  std::int64_t remaining();

 private:
  /// Complete lines from the acknowledged offset: about `max_bytes`, but at least one line if there is one.
  std::string read_lines(std::size_t max_bytes);
  /// The part that is being read, which a SpoolWriter may have made the older one. Requires that it exists.
  std::filesystem::path part();
  /// Goes on with the newer part. False if it is being read already.
  bool next_part();
  /// Finds the place after the last acknowledged line.
  void find_place();

  std::filesystem::path file_, acknowledged_file_;
  bool in_older_ = false;                   // the older part is being read
  std::uint64_t file_id_ = 0;               // inode of the part that is being read; 0: it did not exist yet
  std::int64_t acknowledged_ = 0;           // lines before it are acknowledged
  std::int64_t marked_ = 0, sequence_ = 0;  // end and sequence of the last acknowledged record
  bool saved_ = true;
};

}  // namespace babelring

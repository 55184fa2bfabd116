#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/records/records.h"
#include "base/result.h"

namespace babelring {

/// The older part of a spool, rank-0.old.jsonl beside rank-0.jsonl: what was written before the spool was rotated.
inline std::filesystem::path older_part(const std::filesystem::path& spool) {
  return std::filesystem::path(spool).replace_extension(".old.jsonl");
}

/// The parts of a spool that exist, the older one first.
inline std::vector<std::filesystem::path> spool_parts(const std::filesystem::path& spool) {
  std::vector<std::filesystem::path> parts;
  std::error_code absent;
  for (const std::filesystem::path& part : {older_part(spool), spool}) {
    if (std::filesystem::exists(part, absent)) parts.push_back(part);
  }
  return parts;
}

/// FOLDER/attempt-1/rank-0.jsonl
std::filesystem::path spool_path(const std::filesystem::path& folder, std::int64_t attempt, std::int64_t rank);

/// The spools below FOLDER, by attempt and rank. Empty if there is no such folder.
struct SpoolFile {
  std::int64_t attempt = 0, rank = 0;
  std::filesystem::path file;
};
std::vector<SpoolFile> list_spools(const std::filesystem::path& folder);

/// True if a process has the spool open for writing. False if there is no such file.
bool has_writer(const std::filesystem::path& spool);

/// Parses a line of a spool.
Result<Record> parse_spool_line(std::string_view line);

/// Sequence of the record whose line is the last within the first `end` bytes of the file. 0: the line is damaged.
/// Absent: no line ends there.
std::optional<std::int64_t> spool_sequence_before(const std::filesystem::path& file, std::int64_t end);

/// The last acknowledged line: where it ends in its part of the spool, and the sequence of its record.
struct SpoolMark {
  std::int64_t end = 0, sequence = 0;
};

/// Sequence of the last record in a spool. 0: the spool is empty or ends with a damaged line.
std::int64_t last_spool_sequence(const std::filesystem::path& spool);

/// The mark beside a spool. Absent if there is none, or if its content is damaged. The sequence of an older program's
/// mark is 0.
std::optional<SpoolMark> read_spool_mark(const std::filesystem::path& spool);

/// The inode of a file; 0 if it does not exist.
std::uint64_t inode_of(const std::filesystem::path& file);

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

  /// Goes to the first record after `sequence`, forward or back: what precedes it counts as acknowledged. Returns the
  /// sequence of that record, or of the next one to come if the spool ends before it.
  std::int64_t seek(std::int64_t sequence);

  /// Number of complete lines that are not acknowledged.
  std::int64_t remaining();

 private:
  /// Complete lines from the acknowledged offset: about `max_bytes`, but at least one line if there is one.
  std::string read_lines(std::size_t max_bytes);
  /// The part that is being read, which a SpoolWriter may have made the older one. Requires that it exists.
  std::filesystem::path part();
  /// The sequence of the first record after `sequence` in the part that is being read, whose line is the next then; 0
  /// if there is none, and the part's end is the place then.
  std::int64_t seek_in_part(std::int64_t sequence);
  /// Goes on with the newer part. False if it is being read already.
  bool next_part();
  /// Finds the place after the last acknowledged line.
  void find_place();

  std::filesystem::path file_;
  bool in_older_ = false;                   // the older part is being read
  std::uint64_t file_id_ = 0;               // inode of the part that is being read; 0: it did not exist yet
  std::int64_t acknowledged_ = 0;           // lines before it are acknowledged
  std::int64_t marked_ = 0, sequence_ = 0;  // end and sequence of the last acknowledged record
  bool saved_ = true;
};

}  // namespace babelring

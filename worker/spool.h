#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/records/records.h"
#include "base/records/spool_reader.h"
#include "base/result.h"
#include "base/write_watch.h"
#include "nmt/comm/communicator.h"

namespace babelring {

/// The run, attempt and rank that a record or a heartbeat comes from.
struct RankIdentity {
  std::string run;  // r_…
  std::int64_t attempt = 1;
  std::int64_t rank = 0;
  std::string host;
};

/// Which ranks' records a rank sends, and which rank sends its own.
struct RecordSender {
  std::vector<std::int64_t> served = {};       // ranks whose records this rank sends, beside its own records
  std::optional<std::int64_t> by = {};         // the rank that sends this rank's spool; absent: this rank itself
  std::chrono::milliseconds patience{30'000};  // for that rank to open its spool
};

/// Chooses the first of the ranks of a host that share the spool folder to send the records of all, so that a host has
/// one connection for records. A rank that shares the folder with no other rank of its host (it runs in another
/// container or writes to another disk) sends its records itself. Creates the attempt's folder. Collective: one
/// all_gather.
RecordSender choose_record_sender(Communicator& communicator, const std::filesystem::path& spool_folder,
                                  std::int64_t attempt);

/// Limits of a spool.
struct SpoolLimits {
  /// Limit of both parts of the spool together, as far as the server has confirmed them; 0: none. When the file reaches
  /// half of it, and the older part (rank-0.old.jsonl) is confirmed, the file takes the place of the older part and a
  /// new one begins.
  std::int64_t max_bytes = 0;
  std::size_t max_kept_bytes = std::size_t{8} << 20;  // memory for lines that are not written yet
  std::chrono::milliseconds between_trials{1000};     // min time between attempts to write after an error
  /// Max time that append() waits for the file. A healthy one takes microseconds.
  std::chrono::milliseconds patience{100};
  std::chrono::milliseconds late{10'000};  // a write that takes longer is logged
};

/// Appends one rank's records to its spool file, one JSON object per line, in order. Its thread writes the file.
/// append() waits until the line is handed to the kernel, so that the line survives a crash of the process; but if the
/// file system hangs, only for a moment: the line is then kept in memory and written later. While the file cannot be
/// written (full disk, hung file system), lines are kept in memory up to a limit, and further records are dropped.
/// Locks the file against a second writer. Thread-safe.
class SpoolWriter {
 public:
  /// Opens or creates the file and drops an incomplete last line. Throws Failure (file, system error).
  explicit SpoolWriter(const std::filesystem::path& file, SpoolLimits limits = {});
  /// Waits for the write in progress.
  ~SpoolWriter();
  SpoolWriter(const SpoolWriter&) = delete;
  SpoolWriter& operator=(const SpoolWriter&) = delete;

  /// The sequence number that the next record must have. Dropped records do not consume one.
  std::int64_t next_sequence() const;

  /// Writes the kept lines, then the record. If the file cannot be written, keeps the record, or drops it at the memory
  /// limit. Step and log records may use only three quarters of the limit, which leaves space for rarer records.
  void append(const Record& record);
  /// Tries now to write the kept lines, and waits until that has succeeded or failed.
  void write_kept();
  /// Unlocks the file: has_writer() is false from now on, although later records are still written.
  void release();

  /// The outcome of the last write to the file.
  Status last_write() const;
  /// True if records are kept because the last write has failed, or because a write does not return.
  bool stuck() const;
  /// Records dropped so far.
  std::int64_t dropped() const;
  /// While the writer is stuck(): the oldest kept records, within both limits, but at least one if any is kept.
  std::vector<Record> kept(std::size_t max_records, std::size_t max_bytes) const;
  /// Forgets the kept records up to `sequence`. The server has them, so they need not reach the file.
  void forget_kept(std::int64_t sequence);
  std::int64_t kept_records() const;

 private:
  struct Line {
    std::int64_t sequence;
    std::string text;
  };
  using Lock = std::unique_lock<std::mutex>;
  void recover();
  bool room_for(const Record& record, std::size_t bytes) const;
  bool is_stuck() const;
  void settle(Lock& lock, std::optional<std::chrono::milliseconds> patience);
  void drop_first();
  // On the thread:
  void run();
  void write_lines(Lock& lock);
  /// Begins a new file for the line `sequence`, if the present one is large enough and the older part is confirmed. On
  /// an error it goes on with the present one.
  void rotate_if_due(std::int64_t sequence);
  Status write_line(const std::string& line);

  const std::filesystem::path file_;
  const SpoolLimits limits_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable wanted_changed_, tried_changed_;
  std::list<Line> kept_;  // the thread may be writing the first
  std::size_t kept_bytes_ = 0;
  bool writing_ = false;        // the first of kept_ is being written
  std::int64_t forgotten_ = 0;  // records up to this sequence need not be written
  std::int64_t next_sequence_ = 1;
  std::int64_t dropped_ = 0;
  std::int64_t wanted_ = 0, tried_ = 0;  // trials to write what is kept: wanted, and done
  bool waits_ = true;                    // append() does; not while a trial takes long
  bool released_ = false, ending_ = false;
  SteadyClock::time_point next_trial_;
  Status last_write_;

  // Used by the thread only, once it has been started.
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::int64_t older_sequence_ = 0;  // of the last record in the older part; 0: none
  WriteWatch watch_;
  std::thread thread_;
};

}  // namespace babelring

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/records/records.h"
#include "base/records/spool_reader.h"
#include "base/span_log.h"
#include "client/delivery.h"
#include "client/server_access.h"
#include "worker/spool.h"

namespace babelring {

struct ReporterOptions {
  ServerAccess server;  // without an address, records stay in the spool
  RankIdentity identity;
  std::filesystem::path spool_folder = {};  // contains attempt-1/rank-0.jsonl
  SpoolLimits spool_limits = {};
  RecordSender sender = {};  // without a server unused
  std::chrono::milliseconds post_interval{250};
  std::chrono::milliseconds first_retry{30}, max_backoff{5000};  // exponential backoff with jitter
  std::chrono::milliseconds request_timeout{10000};
  SpanLog* spans = nullptr;  // gets the times in which records are sent; may be null
};

/// Delivers one rank's records to the server. write() appends to the rank's spool file and never waits for the network.
/// A sender thread posts the spooled records in batches and retries until the server confirms them.
///
/// One of the ranks of a host that share the spool folder sends the records of all, from their spools (RecordSender),
/// and each rank confirms by its spool. A rank sends its own as soon as that rank has ended or sends no more because
/// the server bars it, or if the disk is full or hangs.
///
/// With each batch goes the sequence of the newest record that the server has confirmed. A server that does not have
/// that record has lost what follows its own newest one (a damaged write-ahead log, a restored backup): it refuses the
/// batch, and the sender goes back in the spool and sends that again. It then looks at the spools of earlier attempts,
/// too.
///
/// Unconfirmed records of earlier attempts are sent first: each sender sends those of its ranks, and rank 0 those of
/// all ranks in its spool folder. If the server refuses a batch, the sender bisects it to find the refused record, then
/// logs and skips it. While the disk is full, records are kept in memory and sent from there. A warning is logged when
/// that begins, and again, with the number of dropped records, when the disk has space or the kept records were sent.
class Reporter : public RecordSink {
 public:
  /// Opens the spool and starts the sender thread. Throws UsageFailure on an invalid address, Failure if the spool
  /// cannot be opened.
  explicit Reporter(ReporterOptions options);
  /// Closes with a timeout of two seconds, without waiting for served ranks.
  ~Reporter() override;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// Fills in the header and appends the record to the spool. Thread-safe. Does not throw if the disk is full.
  void write(RecordBody body) override;

  /// Sends the remaining records for at most `timeout`, also those of served ranks until these have closed, then ends
  /// the sender thread. If the server then bars the token, it does not retry. Logs when it begins to
  /// wait for longer than a second. Returns and logs the number of this rank's records that the server has neither
  /// confirmed nor refused; 0 without a server. They stay in the spool, if it can be written, for `nmt run sync` or the
  /// run's next attempt. Later records only go to the spool.
  std::int64_t close(std::chrono::milliseconds timeout) { return close(timeout, true); }

 private:
  std::int64_t close(std::chrono::milliseconds timeout, bool wait_for_served);
  /// Logs how many of this rank's records close() waits for.
  void announce_wait(std::chrono::milliseconds timeout) const;
  void send_loop();
  void end_sending();
  /// Waits while another rank sends this rank's records. True if this rank has to send them from now on, false if all
  /// are confirmed and the reporter closes.
  bool wait_for_sender();
  /// A spool that is being sent, and the newest record of it that the server has confirmed.
  struct Sending {
    explicit Sending(std::filesystem::path path) : file(std::move(path)), spool(file) {}
    std::filesystem::path file;
    SpoolReader spool;
    std::int64_t confirmed = 0;  // its sequence; 0: none
  };
  /// Sends what earlier attempts left unconfirmed. With `check`, also asks the server whether it still has the last
  /// record of each confirmed spool.
  void send_older_spools(bool check);
  /// Sends the spools of this attempt, in turns, until close().
  void send_spools();
  /// Sends the next records of one of spools_. False if there are none.
  bool send_next(Sending& sending);
  /// The next records from the spool's file or, of the own one, from memory. Empty if nothing is left to send.
  SpoolReader::Batch next_batch(SpoolReader& spool, bool own);
  /// Waits until there may be more records than when `seen` were written. False if there will be none.
  bool wait_for_more(std::int64_t seen);
  /// Whether a served rank still writes to its spool.
  bool served_rank_writes() const;
  /// Number of records written since the start.
  std::int64_t written();
  std::filesystem::path spool_of(std::int64_t rank) const;
  /// Marks the records as stored or skipped.
  void settle(SpoolReader& spool, const SpoolReader::Batch& batch);
  /// A warning about a full or recovered disk, once for each change; otherwise empty. Requires mutex_.
  std::string spool_notice();
  /// Writes the records kept in memory and logs the number of lost ones.
  void close_spool();
  enum class Course {
    settled,    // each record is stored or skipped
    went_back,  // the server lacks earlier records: the spool begins with these now
    ended,      // stopped before that, or barred while closing
  };
  Course deliver(Sending& sending, std::span<const Record> records);
  PostedBatch send(const Sending& sending, std::span<const Record> records);
  /// Goes back to what the server no longer has.
  void go_back(Sending& sending, std::int64_t stored);
  void skip(const Record& record, const std::string& why);
  void report_outage(const std::string& why);
  void wait_for_turn();
  void wait_to_retry();
  bool stopped() const;
  bool closing() const;
  std::vector<Sending> older_spools(bool check) const;

  const ReporterOptions options_;
  SpoolWriter writer_;
  std::unique_ptr<HttpClient> client_;  // null without a server

  mutable std::mutex mutex_;  // guards writer_ and the members below
  std::condition_variable changed_;
  std::int64_t written_ = 0;  // records since the start
  bool spool_fails_ = false;  // and the warning was logged
  std::int64_t drops_logged_ = 0;
  bool closed_ = false;
  bool closing_ = false, stop_ = false, finished_ = false;
  bool wait_for_served_ = true;  // before the end, for served ranks to close

  // Used by the sender thread only, and by close() after it ended.
  SteadyClock::time_point next_post_;
  std::chrono::milliseconds retry_{0}, requested_delay_{0};
  std::minstd_rand jitter_{std::random_device{}()};
  bool outage_ = false;
  bool barred_ = false;  // while closing
  std::int64_t skipped_ = 0;
  std::set<std::string> refusals_;  // reasons that were logged
  bool check_older_ = false;        // the server has lost records
  std::vector<Sending> older_;      // spools of earlier attempts
  std::vector<Sending> spools_;     // of this attempt: this rank's, then those of served ranks
  std::int64_t remaining_ = 0;
  std::thread thread_;
};

}  // namespace babelring

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
#include <vector>

#include "base/clock.h"
#include "base/records.h"
#include "client/http_client.h"
#include "worker/delivery.h"
#include "worker/spool.h"

namespace babelring {

struct ReporterOptions {
  std::string server = "none";         // http://host:port; none: records stay in the spool
  std::string token;                   // empty: none
  std::filesystem::path ca_file;       // authorities that https trusts; empty: the system's
  std::filesystem::path spool_folder;  // holds attempt-1/rank-0.jsonl
  std::string run;                     // r_…
  std::int64_t attempt = 1;
  std::int64_t rank = 0;
  std::string host;
  std::chrono::milliseconds between_posts{250};
  std::chrono::milliseconds first_retry{30}, longest_retry{5000};  // doubling, with jitter
  std::chrono::milliseconds request_timeout{10000};
};

/// Carries one rank's records to the server: into the rank's spool file first, then, by a thread of its own, in batches
/// over HTTP until the server has confirmed them. write() never waits for the network. What earlier attempts left
/// unconfirmed is sent too: by each rank its own, by rank 0 that of every rank it finds. A record that the server will
/// not have is found by halving its batch, logged and skipped, so that it keeps back nothing behind it. Records that
/// the spool keeps in memory, because its disk is full, are sent from there. A warning says so, and another one how
/// many were dropped, once the spool can be written or the memory has been sent.
class Reporter : public RecordSink {
 public:
  /// Opens the spool and starts the thread. Throws UsageFailure on a bad address, Failure on a spool that cannot be
  /// used.
  explicit Reporter(ReporterOptions options);
  /// close() with two seconds, if it was not called.
  ~Reporter() override;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// From any thread. Stamps the header and appends to the spool. Never throws because of a full disk.
  void write(RecordBody body) override;

  /// Sends what is left for at most `timeout`, then ends the thread. Returns (and logs) how many records the server has
  /// neither confirmed nor refused; they stay in the spool for the run's next attempt, unless it cannot be written. 0
  /// without a server. Records written later only reach the spool.
  std::int64_t close(std::chrono::milliseconds timeout);

 private:
  void send_loop();
  /// Sends a spool: an older one to its end, the rank's own until close().
  void send_spool(SpoolReader& spool, bool own);
  /// The spool's next records, or those that are kept in memory; waits for some if it is the rank's own. Empty when
  /// there is nothing left to send.
  SpoolReader::Batch next_batch(SpoolReader& spool, bool own);
  /// The records were stored or skipped.
  void settle(SpoolReader& spool, const SpoolReader::Batch& batch);
  /// What is to be said of the spool's disk, once each time; empty: nothing. With mutex_ held.
  std::string spool_notice();
  /// Writes what memory keeps; says what cannot be kept.
  void close_spool();
  /// Until each record is stored or skipped; false when stopped before.
  bool deliver(std::span<const Record> records);
  struct Outcome {
    Delivery delivery;
    std::string why;  // where it is not stored
  };
  Outcome send(std::span<const Record> records);
  void skip(const Record& record, const std::string& why);
  void note_outage(const std::string& why);
  void wait_for_turn();
  void wait_to_retry();
  bool stopped();
  std::vector<SpoolReader> older_spools() const;

  const ReporterOptions options_;
  SpoolWriter writer_;
  std::unique_ptr<HttpClient> client_;  // null without a server

  std::mutex mutex_;  // guards writer_ and what follows
  std::condition_variable changed_;
  std::int64_t written_ = 0;  // records since the start
  bool spool_fails_ = false;  // and has been said to
  std::int64_t drops_said_ = 0;
  bool closed_ = false;
  bool closing_ = false, stop_ = false, finished_ = false;

  // Of the thread alone, and of close() once it has ended.
  SteadyClock::time_point next_post_;
  std::chrono::milliseconds retry_{0}, asked_delay_{0};
  std::minstd_rand jitter_{std::random_device{}()};
  bool outage_ = false;
  std::int64_t skipped_ = 0;
  std::set<std::string> refusals_;   // logged
  std::vector<SpoolReader> spools_;  // what to send, the rank's own last
  std::int64_t remaining_ = 0;
  std::thread thread_;
};

}  // namespace babelring

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/train/config.h"
#include "nmt/train/stop_request.h"
#include "worker/log_records.h"

namespace babelring {

/// The command line of `worker`.
struct JobOptions {
  std::string config_file;             // read by rank 0 and sent to the others
  std::vector<std::string> overrides;  // key=value
  std::string server = "none";         // http://host:port, or none
  std::filesystem::path token_file;    // read by rank 0; empty: as find_token() does without one
  std::string token;                   // for the server; empty: none
  std::filesystem::path run_folder;    // empty: runs/NAME
  std::filesystem::path ca_file;       // authorities that https trusts; empty: the system's
  std::string run;                     // r_…, of a server that starts runs; empty: run_folder's own, or a new one
  std::int64_t attempt = 0;            // with it
  bool take_over = false;              // the run folder from a worker that trains there
  std::filesystem::path resume_from;   // folder of a checkpoint; empty: the run's newest
  bool accept_changes = false;         // of the configuration, on resuming
  bool from_scratch = false;           // begin anew, the run's checkpoints are set aside
  std::filesystem::path event_folder;  // for TensorBoard; empty: no event files
  std::string progress = "auto";       // whether rank 0 draws a progress bar: draws_progress()
};

/// Reads the configuration on rank 0 and gives it to all. Throws UsageFailure or Failure on every rank alike.
TrainConfig shared_config(const JobOptions& options, Communicator& communicator);

/// The token for the server as rank 0 finds it, given to all; empty without a server. Throws UsageFailure on every rank
/// alike.
std::string shared_token(const JobOptions& options, Communicator& communicator);

/// Checks on every rank that it can be a client of the server: its host may lack the file of authorities. Throws
/// UsageFailure on every rank alike, naming the rank.
void check_server_access(const JobOptions& options, Communicator& communicator);

/// One rank's part of a run, from opening the data to the last record; what is logged meanwhile is recorded too. Throws
/// Failure, after recording that the run failed.
void run_job(const JobOptions& options, const TrainConfig& config, Communicator& communicator, StopRequest& stop,
             LogRecords& log);

}  // namespace babelring

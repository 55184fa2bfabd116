#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "client/server_access.h"
#include "nmt/comm/communicator.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/setup/requests.h"
#include "worker/log_records.h"
#include "worker/terminal.h"

namespace babelring {

/// The command line of `worker`.
struct JobOptions {
  std::string config_file;             // read on rank 0 and sent to the other ranks
  std::vector<std::string> overrides;  // key=value
  ServerAccess server;                 // its token is set after shared_token(); no address: no server
  std::filesystem::path token_file;    // read on rank 0; empty: the defaults of find_token()
  std::filesystem::path run_folder;    // empty: runs/NAME
  std::int64_t max_spool_mb = 1024;    // of confirmed records in each rank's spool; 0: unlimited
  std::string run;                     // r_…, set by a server that starts runs; empty: from run_folder, or a new id
  json::object labels;                 // of the run on the server, beside those that it has there
  std::int64_t attempt = 0;            // set together with `run`
  bool take_over = false;              // take the run folder from a worker that trains there
  std::filesystem::path resume_from;   // checkpoint folder; empty: the run's newest checkpoint
  std::int64_t expect_checkpoint = 0;  // update of which, or after which, the run's folder must have a checkpoint
  bool accept_changes = false;         // allow changes of the configuration on resume
  bool from_scratch = false;           // start at update 1; existing checkpoints are moved aside
  std::filesystem::path event_folder;  // for TensorBoard event files; empty: as configured
  ProgressBar progress = ProgressBar::automatic;  // on rank 0
};

/// Reads the configuration on rank 0 and broadcasts it. On error all ranks throw the same UsageFailure.
TrainConfig shared_config(const JobOptions& options, Communicator& communicator);

/// Finds the server token on rank 0 and broadcasts it; empty without a server. On error all ranks throw the same
/// UsageFailure.
std::string shared_token(const JobOptions& options, Communicator& communicator);

/// Checks on every rank that an HTTP client can be created. A host may lack the certificate file, for example. On error
/// all ranks throw the same UsageFailure, which names the rank.
void check_server_access(const JobOptions& options, Communicator& communicator);

/// Runs one rank of a training job, from opening the data to sending the last record. Log lines become log records too.
/// Throws Failure after it recorded the error.
void run_job(const JobOptions& options, const TrainConfig& config, Communicator& communicator, StopRequest& stop,
             LogRecords& log);

}  // namespace babelring

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/train/config.h"
#include "nmt/train/stop_request.h"

namespace babelring {

/// The command line of `worker`.
struct JobOptions {
  std::string config_file;             // read by rank 0 and sent to the others
  std::vector<std::string> overrides;  // key=value
  std::string server = "none";         // http://host:port, or none
  std::filesystem::path run_folder;    // empty: runs/NAME
};

/// Reads the configuration on rank 0 and gives it to all. Throws UsageFailure or Failure on every rank alike.
TrainConfig shared_config(const JobOptions& options, Communicator& communicator);

/// One rank's part of a run, from opening the data to the last record. Throws Failure; the run is then recorded failed.
void run_job(const JobOptions& options, const TrainConfig& config, Communicator& communicator, const StopRequest& stop);

}  // namespace babelring

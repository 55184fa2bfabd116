#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "client/server_access.h"

namespace babelring {

struct SyncOptions {
  ServerAccess server;
  bool all = false;                            // also records that the server has confirmed
  std::chrono::milliseconds first_retry{500};  // then twice as long each time
  int retries = 4;                             // of a batch that the server does not take
};

/// The records of one run's folder that were sent.
struct SyncedRun {
  std::filesystem::path folder;
  std::string run;                                 // its id; empty: its spools have no record
  std::int64_t sent = 0;                           // that the server did not have
  std::int64_t first_update = 0, last_update = 0;  // of the steps in the batches with these; 0: none
  std::int64_t refused = 0;
  std::string refusal;  // reason for the first refused one
};

/// Sends what a server lacks of the records in the spools of ended runs. May be repeated. Throws UsageFailure if a
/// folder has no spool or if a process still writes to one, before anything is sent; Failure if the server cannot be
/// reached, does not take the records or refuses the token. What was sent before that is marked.
std::vector<SyncedRun> sync_runs(const std::vector<std::filesystem::path>& folders, const SyncOptions& options);

}  // namespace babelring

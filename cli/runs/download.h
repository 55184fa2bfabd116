#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "client/api_client.h"

namespace babelring {

/// Which updates of a running run to trace, and where to put the file.
struct TimelineRequest {
  std::string run;  // id
  std::int64_t updates = 3;
  bool ops = true;               // show each op
  std::filesystem::path output;  // empty: the file's own name, in the current folder
  std::chrono::milliseconds poll_interval{500};
  std::chrono::milliseconds patience{60000};  // for the file, once the run has executed the request
};

/// A timeline that was downloaded.
struct TracedRun {
  json::object artifact;  // with its content
  std::filesystem::path file;
};

/// Requests a timeline, waits for its file and downloads it to `output`, which must not exist. Throws Failure, for
/// instance if the run ends before it is traced.
TracedRun trace_run(ApiClient& api, const TimelineRequest& request);

/// Selects a checkpoint of a run.
struct CheckpointSelector {
  std::string id;  // c_…; empty: use the flags
  bool best = false, latest = false;
};

/// Fetches the chosen checkpoint: by id, the best or the latest. Without a choice, the best, or the latest if there is
/// no best. Throws Failure if there is none.
json::object choose_checkpoint(ApiClient& api, const std::string& run, const CheckpointSelector& choice);

/// Called with the number of bytes downloaded and the total.
using CheckpointProgress = std::function<void(std::int64_t bytes, std::int64_t total)>;

/// Downloads a checkpoint into the folder `output`, which must not exist. Files are downloaded to OUTPUT.part and
/// verified against the manifest, then OUTPUT.part is renamed, so the folder is complete or absent. Resumes an
/// interrupted download in OUTPUT.part. The folder can be passed to `nmt translate --checkpoint`. Throws Failure.
void download_checkpoint(ApiClient& api, const json::object& checkpoint, const std::filesystem::path& output,
                         const CheckpointProgress& progress = {});

}  // namespace babelring

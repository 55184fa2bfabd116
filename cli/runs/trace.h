#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "client/api_client.h"

namespace babelring {

/// A request for a timeline of a running run.
struct TraceDownload {
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
TracedRun trace_run(ApiClient& api, const TraceDownload& request);

}  // namespace babelring

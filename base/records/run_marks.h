#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/failure.h"
#include "base/records/library_versions.h"

namespace babelring {

/// Thrown by an attempt that is over: it was abandoned, and a newer attempt may be running. It must not write anything.
class Fenced : public Failure {
 public:
  using Failure::Failure;
};

/// Records in a run's folder that attempts up to `attempt` are over (a fence). The server writes the fence before it
/// starts the next attempt. A worker reads it just before a checkpoint becomes visible. Durable. Throws Failure.
void write_fence(const std::filesystem::path& folder, std::int64_t attempt);

/// The newest attempt that is over, or 0 if there is no fence. Throws Failure if the fence cannot be read.
std::int64_t fenced_attempt(const std::filesystem::path& folder);

/// The content of run.json, which every host of a run has in its folder of the run.
struct RunFile {
  std::string run;
  std::int64_t attempt = 0;
  std::string host;                // host of the attempt's rank 0; empty: written by a worker of version 0.1
  LibraryVersions libraries = {};  // of the attempt's rank 0; unknown in files of older workers
  std::string end = {};     // how training ended, as rank 0 says: "finished", "stopped" or "failed"; empty before
  std::string detail = {};  // more about the end, for people
  std::string server = {};  // address to which the attempt reports; empty: to none, or written by an older worker
  bool operator==(const RunFile&) const = default;
};

/// Reads run.json, if it exists. Throws Failure if it cannot be read or parsed.
std::optional<RunFile> read_run_file(const std::filesystem::path& folder);
/// Writes run.json unless its content is the same. The folder must exist. Durable. Throws Failure.
void write_run_file(const std::filesystem::path& folder, const RunFile& content);

}  // namespace babelring

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "worker/folder_lock.h"

namespace babelring {

/// Throws UsageFailure unless these are a run's id and an attempt's number. All ranks were given the same ones and call
/// it before their first collective, so that none waits for another.
void check_identity(const std::string& run, std::int64_t attempt);

/// What run.json says.
struct RunFile {
  std::string run;
  std::int64_t attempt = 0;
  std::string host;  // where rank 0 of the attempt was; empty: a worker of version 0.1 wrote it
};

/// run.json of a folder, if it is there. Throws Failure if it cannot be read.
std::optional<RunFile> read_run_file(const std::filesystem::path& folder);
/// Makes the folder if need be. Writes nothing if run.json says the same already. Throws Failure.
void keep_run_file(const std::filesystem::path& folder, const RunFile& content);

/// The folder of one run, on the host of rank 0: run.json (its id and attempt), run.lock, config.yaml, checkpoints/,
/// spool/. It is locked as long as this object lives.
class RunFolder {
 public:
  struct Options {
    std::string run;           // id, given by a server; empty: the folder's own, or a new one
    std::int64_t attempt = 0;  // with it
    FolderLock::Options lock;
  };

  /// Makes and locks the folder; to be followed by open(). Throws UsageFailure if it is in use, Failure if it cannot be
  /// made.
  RunFolder(std::filesystem::path path, Options options);

  /// Begins the next attempt of the folder's run, or the one that the server numbered, and writes run.json.
  /// `earlier_attempts`: the greatest number that any host knows. Throws Failure if the folder is of another run, or if
  /// this attempt is over: a newer one was started, or it was given up.
  void open(std::int64_t earlier_attempts, const std::string& host);

  const std::string& run() const { return run_; }
  std::int64_t attempt() const { return attempt_; }

  /// Throws Fenced if this attempt is over. Called before anything that a newer attempt would read is written.
  void require_current() const;

 private:
  void check_given(const std::optional<RunFile>& before) const;

  std::filesystem::path path_;
  Options options_;
  FolderLock lock_;
  std::string run_;
  std::int64_t attempt_ = 0;
};

}  // namespace babelring

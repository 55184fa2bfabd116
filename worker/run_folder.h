#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace babelring {

/// Throws UsageFailure unless these are a run's id and an attempt's number. All ranks were given the same ones and call
/// it before their first collective, so that none waits for another.
void check_identity(const std::string& run, std::int64_t attempt);

/// The folder of one run: run.json (its id and attempt), config.yaml, checkpoints/, spool/.
class RunFolder {
 public:
  /// Opens or makes it. A folder that holds a run already goes on with that run's id and the next attempt. Only rank 0
  /// calls this. Throws Failure.
  explicit RunFolder(std::filesystem::path path);
  /// Opens or makes it for an attempt that a server numbered. Throws Failure if the folder is of another run, or if
  /// this attempt is over: a newer one was started, or it was given up.
  RunFolder(std::filesystem::path path, const std::string& run, std::int64_t attempt);

  const std::string& run() const { return run_; }
  std::int64_t attempt() const { return attempt_; }

  /// Throws Fenced if this attempt is over. Called before anything that a newer attempt would read is written.
  void require_current() const;

 private:
  struct Stored {
    std::string run;
    std::int64_t attempt = 0;
  };
  std::optional<Stored> stored() const;
  void store() const;

  std::filesystem::path path_;
  std::string run_;
  std::int64_t attempt_ = 1;
};

}  // namespace babelring

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace babelring {

/// The folder of one run: run.json (its id and attempt), config.yaml, checkpoints/, spool/.
class RunFolder {
 public:
  /// Opens or makes it. A folder that holds a run already goes on with that run's id and the next attempt. Only rank 0
  /// calls this. Throws Failure.
  explicit RunFolder(std::filesystem::path path);

  const std::string& run() const { return run_; }
  std::int64_t attempt() const { return attempt_; }

 private:
  std::filesystem::path path_;
  std::string run_;
  std::int64_t attempt_ = 1;
};

}  // namespace babelring

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/names.h"
#include "base/result.h"

namespace babelring {

/// Compares files of a prepared folder with the SHA-256 digests of its manifest while training uses them, on a thread
/// of the lowest priority for processors and disks. A file that is replaced meanwhile does not matter: training, too,
/// has the old one open.
class DataCheck {
 public:
  /// Opens the files. Throws Failure if one cannot be opened.
  DataCheck(const std::filesystem::path& folder, const std::vector<ManifestFile>& files) { add(folder, files); }
  /// Ends the thread without reading on.
  ~DataCheck();
  DataCheck(const DataCheck&) = delete;
  DataCheck& operator=(const DataCheck&) = delete;

  /// Adds files of another folder, before start(). Throws like the constructor.
  void add(const std::filesystem::path& folder, const std::vector<ManifestFile>& files);
  /// Starts the thread, unless it was started.
  void start();
  /// Waits for the end of the check for at most `time`. True if it has ended; start() comes first.
  bool ended_within(std::chrono::milliseconds time);
  /// True if a file differs or cannot be read, as far as is known. Any thread.
  bool found_damage() const { return damaged_.load(); }
  /// The error names the first such file, what was found and what was expected. Any thread.
  Status result() const;

 private:
  struct Opened {
    std::string path, sha256;
    FileDescriptor file;
  };
  void run();
  /// Empty if the check is to end.
  std::string digest_of(const Opened& opened) const;

  std::vector<Opened> files_;
  std::atomic<bool> stopping_{false}, damaged_{false};
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool ended_ = false;
  Status result_;
  std::thread thread_;
};

}  // namespace babelring

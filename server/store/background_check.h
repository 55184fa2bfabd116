#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "server/store/sqlite.h"

namespace babelring::store {

/// Checks, in the background, a database that is too large to wait for: its state when the check begins.
class BackgroundCheck {
 public:
  /// `damaged` is called on the check's thread with what was found, if anything. Throws SqlFailure if the file cannot
  /// be opened.
  BackgroundCheck(const std::filesystem::path& file, std::function<void(const std::string&)> damaged);
  /// Aborts a check in progress.
  ~BackgroundCheck();
  BackgroundCheck(const BackgroundCheck&) = delete;
  BackgroundCheck& operator=(const BackgroundCheck&) = delete;

  /// The check has ended and found nothing.
  bool passed() const { return passed_; }

 private:
  void check();

  Database database_;
  const std::function<void(const std::string&)> damaged_;
  std::atomic<bool> stopping_ = false, ended_ = false, passed_ = false;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace babelring::store

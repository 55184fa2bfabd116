#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "server/store/sqlite.h"

namespace babelring::store {

/// Checks a large database for damage on a background thread. The check sees the database as it was when the check
/// started.
class BackgroundCheck {
 public:
  /// `damaged` is called on the background thread with a description if damage is found. Throws SqlFailure if the file
  /// cannot be opened.
  BackgroundCheck(const std::filesystem::path& file, std::function<void(const std::string&)> damaged);
  /// Aborts a running check.
  ~BackgroundCheck();
  BackgroundCheck(const BackgroundCheck&) = delete;
  BackgroundCheck& operator=(const BackgroundCheck&) = delete;

  /// True once the check has completed without finding damage.
  bool passed() const { return passed_; }

 private:
  void check();

  Database database_;
  const std::function<void(const std::string&)> damaged_;
  std::atomic<bool> stopping_ = false, ended_ = false, passed_ = false;
  std::thread thread_;  // last member: it uses all the others
};

}  // namespace babelring::store

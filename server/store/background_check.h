#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "server/store/sqlite.h"

namespace babelring::store {

/// Verifies a database too large to be waited for, while it is in use: as it stands when the check begins.
class BackgroundCheck {
 public:
  /// `damaged` is called with what was found, if the database is damaged, on the check's thread. Throws SqlFailure if
  /// the file cannot be opened.
  BackgroundCheck(const std::filesystem::path& file, std::function<void(const std::string&)> damaged);
  /// Breaks off a check that is not done.
  ~BackgroundCheck();
  BackgroundCheck(const BackgroundCheck&) = delete;
  BackgroundCheck& operator=(const BackgroundCheck&) = delete;

  /// It was done to the end, and all is well.
  bool passed() const { return passed_; }

 private:
  void check();

  Database database_;
  const std::function<void(const std::string&)> damaged_;
  std::atomic<bool> stopping_ = false, ended_ = false, passed_ = false;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace babelring::store

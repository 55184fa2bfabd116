#include "server/store/background_check.h"

#include <spdlog/spdlog.h>
#include <sqlite3.h>

#include <chrono>

namespace babelring::store {

BackgroundCheck::BackgroundCheck(const std::filesystem::path& file, std::function<void(const std::string&)> damaged)
    : database_(file, Database::Mode::reader), damaged_(std::move(damaged)), thread_([this] {
        check();
        ended_ = true;
      }) {}

BackgroundCheck::~BackgroundCheck() {
  stopping_ = true;
  while (!ended_) {  // repeated, because an interrupt before the statement starts has no effect
    sqlite3_interrupt(database_.handle());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  thread_.join();
}

void BackgroundCheck::check() {
  std::string verdict;
  try {
    if (!stopping_) verdict = database_.scalar("PRAGMA quick_check(1)");
  } catch (const std::exception& failure) {
    verdict = failure.what();
  }
  if (stopping_) return;
  passed_ = verdict == "ok";
  if (passed_) {
    spdlog::info("database: check passed");
  } else {
    damaged_(verdict);
  }
}

}  // namespace babelring::store

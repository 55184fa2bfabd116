#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "tests/worker/test_server.h"
#include "worker/reporter.h"

namespace babelring {

/// Reporters that write their spools to a temporary folder and report to a TestServer, which counts the records it
/// receives.
class ReporterTest : public testing::Test {
 protected:
  ReporterTest() { std::filesystem::remove_all(folder_); }
  ~ReporterTest() override { std::filesystem::remove_all(folder_); }

  ReporterOptions options(const std::string& server, std::int64_t attempt = 1, std::int64_t rank = 0) const {
    ReporterOptions options{
        .server = {server},
        .identity = {.run = "r_01J0000000000000000000000Z", .attempt = attempt, .rank = rank, .host = "hostA"},
        .spool_folder = folder_};
    options.post_interval = std::chrono::milliseconds(1);
    options.first_retry = std::chrono::milliseconds(1);
    options.max_backoff = std::chrono::milliseconds(20);
    options.request_timeout = std::chrono::seconds(60);
    return options;
  }
  static void write_steps(Reporter& reporter, int count) {
    for (int i = 0; i < count; ++i) reporter.write(StepRecord{.update = i, .loss = 1.5});
  }
  void expect_complete(std::int64_t count, std::int64_t attempt = 1, std::int64_t rank = 0) const {
    std::vector<std::int64_t> expected(static_cast<std::size_t>(count));
    std::iota(expected.begin(), expected.end(), std::int64_t{1});
    EXPECT_EQ(ledger_.sequences(attempt, rank), expected) << "attempt " << attempt << " rank " << rank;
  }

  const std::filesystem::path folder_ = testing::TempDir() + "reporter_test." + std::to_string(::getpid());
  Ledger ledger_;
};

}  // namespace babelring

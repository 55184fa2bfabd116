#include "worker/run_report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/json.h"
#include "tests/insight/report/constructed_run.h"
#include "tests/worker/log_capture.h"
#include "worker/spool.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

class RunReportTest : public ::testing::Test {
 protected:
  RunReportTest() {
    std::string name = fs::temp_directory_path() / "babelring-report-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~RunReportTest() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(RunReportTest, WritesTheReportFromTheSpools) {
  const fs::path spool = spool_path(folder_ / "spool", 1, 0);
  fs::create_directories(spool.parent_path());
  std::ofstream out(spool);
  for (const Record& record : constructed::stopped_run().records()) out << to_text(to_json(record)) << '\n';
  out << R"({"torn)";
  out.close();
  write_run_report(folder_);
  EXPECT_NE(read_file(folder_ / "report.html").find("stopped on request after 100 of 1,000 updates"),
            std::string::npos);
  EXPECT_EQ(read_file(folder_ / "report.json"),
            read_file(fs::path(BABELRING_SOURCE_DIR) / "tests/insight/report/stopped_run.json"));
}

TEST_F(RunReportTest, LogsOneLineIfItCannotBeMade) {
  LogCapture log;
  write_run_report(folder_);
  EXPECT_NE(log.text().find("the run's report was not written"), std::string::npos) << log.text();
  EXPECT_FALSE(fs::exists(folder_ / "report.html"));
}

}  // namespace
}  // namespace babelring

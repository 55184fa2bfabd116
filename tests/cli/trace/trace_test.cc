#include "cli/commands.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "base/records/records.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class TraceLight : public testing::Test {
 protected:
  /// Adds a rank's spool with a step record for each of the updates.
  void write_spool(int attempt, int rank, const std::vector<std::int64_t>& updates, const std::string& after = "") {
    std::string lines;
    for (const std::int64_t update : updates) {
      StepRecord step;
      step.update = update;
      step.times.step = 500;
      step.times.data = 20;
      step.flops = 4e9;
      step.target_tokens = 1000;
      step.memory_bytes = {{"weights", 7}, {"peak", std::int64_t{3} << 29}};
      const RecordHeader header{
          .run = "r_00000000000000000000000000", .attempt = attempt, .sequence = update, .rank = rank, .host = "hostA"};
      lines += to_text(to_json({header, step})) + "\n" + to_text(to_json({header, LogRecord{"info", "text"}})) + "\n";
    }
    const auto folder = run_.path() / "spool" / fmt::format("attempt-{}", attempt);
    std::filesystem::create_directories(folder);
    write_file_atomically(folder / fmt::format("rank-{}.jsonl", rank), lines + after);
  }
  /// The lines that `light RUN` and these options print.
  std::vector<std::string> lines(const std::string& options = "") {
    CLI::App app;
    add_trace_light(app);
    testing::internal::CaptureStdout();
    try {
      app.parse("light " + run_.path().string() + " " + options);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    std::vector<std::string> all;
    std::istringstream text(testing::internal::GetCapturedStdout());
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }

  TemporaryFolder run_;
};

TEST_F(TraceLight, PrintsALineForEachUpdateOfAllAttempts) {
  write_spool(2, 0, {8});
  write_spool(10, 0, {9}, R"({"run":"r_)");  // the rank was killed while it wrote
  write_spool(2, 1, {8});
  const std::vector<std::string> found = lines();
  EXPECT_THAT(found, ElementsAre(HasSubstr("\"step\":8,"), HasSubstr("\"step\":9,")));
  const json::value line = parse_json(found[0]).value();
  EXPECT_DOUBLE_EQ(line.at("data_io_time").to_number<double>(), 0.02);
  EXPECT_DOUBLE_EQ(line.at("model_time").to_number<double>(), 0.48);
  EXPECT_DOUBLE_EQ(line.at("flops").to_number<double>(), 4e9);
  EXPECT_DOUBLE_EQ(line.at("token_freq").to_number<double>(), 2000);
  EXPECT_DOUBLE_EQ(line.at("mem_GiB").to_number<double>(), 1.5);
  EXPECT_EQ(lines("--rank 1").size(), 1U);
}

TEST_F(TraceLight, ExplainsWhatIsMissing) {
  EXPECT_THAT(
      [this] { lines(); },
      ThrowsMessage<UsageFailure>(HasSubstr("found no spool/attempt-*/rank-0.jsonl, expected the folder of a run")));
  write_spool(1, 0, {1}, "{\"kind\":\"step\"}\n");
  EXPECT_THAT([this] { lines(); }, ThrowsMessage<Failure>(HasSubstr("rank-0.jsonl: line 3: ")));
}

}  // namespace

}  // namespace babelring

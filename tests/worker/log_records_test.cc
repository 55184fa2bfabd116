#include "worker/log_records.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

using Line = std::pair<std::string, std::string>;

class LineSink : public RecordSink {
 public:
  void write(RecordBody body) override {
    const auto& log = std::get<LogRecord>(body);
    lines.emplace_back(log.level, log.text);
    if (talkative) spdlog::warn("a line was written");
    if (broken) throw Failure("no room");
  }
  std::vector<Line> lines;
  bool talkative = false, broken = false;
};

TEST(LogRecords, CopyLogLinesFromInfoUpWhileConnected) {
  const LogCapture usual;
  spdlog::default_logger()->set_level(spdlog::level::debug);
  LogRecords log;
  LineSink sink;
  spdlog::info("before");
  {
    const LogRecords::Connection connection(log, sink);
    spdlog::debug("for nobody");
    spdlog::info("{} sentence pairs", 3);
    spdlog::warn("torn \x1b[1m");
    spdlog::error("lost");
    spdlog::critical("all lost");
  }
  spdlog::info("after");
  EXPECT_EQ(sink.lines,
            (std::vector<Line>{
                {"info", "3 sentence pairs"}, {"warn", "torn \\x1b[1m"}, {"error", "lost"}, {"error", "all lost"}}));
  EXPECT_EQ(usual.count("3 sentence pairs"), 1) << "it is logged as before, too";
}

TEST(LogRecords, SkipLinesLoggedByTheSink) {
  const LogCapture usual;
  LogRecords log;
  LineSink sink;
  sink.talkative = true;
  const LogRecords::Connection connection(log, sink);
  spdlog::info("one");
  spdlog::info("two");
  EXPECT_EQ(sink.lines, (std::vector<Line>{{"info", "one"}, {"info", "two"}}));
  EXPECT_EQ(usual.count("a line was written"), 2);
}

TEST(LogRecords, SurviveASinkThatThrows) {
  const LogCapture usual;
  LogRecords log;
  LineSink sink;
  sink.broken = true;
  const LogRecords::Connection connection(log, sink);
  EXPECT_NO_THROW(spdlog::info("one"));
  sink.broken = false;
  spdlog::info("two");
  EXPECT_EQ(sink.lines.size(), 2u);
}

}  // namespace
}  // namespace babelring

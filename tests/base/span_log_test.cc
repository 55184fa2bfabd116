#include "base/span_log.h"

#include <gmock/gmock.h>

#include <thread>

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

TEST(SpanLogTest, LogsScopesOnlyWhileItRecords) {
  SpanLog log;
  {
    const SpanScope before(&log, "main", "before");
  }
  log.add({"main", "phase", "ignored", {}, {}});
  EXPECT_THAT(log.take(), IsEmpty());
  log.record(true);
  const auto begin = SteadyClock::now();
  {
    const SpanScope inside(&log, "main", "inside");
  }
  std::thread([&log] { const SpanScope other(&log, "data", "other"); }).join();
  {
    const SpanScope nowhere(nullptr, "main", "nowhere");
  }
  const std::vector<LoggedSpan> spans = log.take();
  EXPECT_THAT(spans, ElementsAre(Field(&LoggedSpan::name, "inside"), Field(&LoggedSpan::thread, "data")));
  EXPECT_LE(begin, spans[0].begin);
  EXPECT_LE(spans[0].begin, spans[0].end);
  EXPECT_LE(spans[0].end, spans[1].end);
  log.record(false);
  {
    const SpanScope after(&log, "main", "after");
  }
  EXPECT_THAT(log.take(), IsEmpty());
}

}  // namespace
}  // namespace babelring

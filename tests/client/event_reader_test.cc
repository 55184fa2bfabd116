#include "client/event_reader.h"

#include <gtest/gtest.h>

#include <vector>

namespace babelring {
namespace {

std::vector<std::string> read_all(EventReader& reader, std::string_view text, std::size_t piece) {
  std::vector<std::string> events;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    reader.feed(text.substr(at, piece), [&](const ServerEvent& event) {
      events.push_back(event.name + "=" + event.data);
      return true;
    });
  }
  return events;
}

TEST(EventReader, ReadsEventsWithAnyChunksAndLineEnds) {
  const std::string text =
      "retry: 2000\n\n: a comment\nid: 3-1\nevent: state\ndata: {\"a\":1}\n\n"
      "data:one\r\ndata: two\r\n\r\nevent: empty\n\nid\rdata\r\rid: 3-9\ndata: x\n\ndata: not ended\n";
  const std::vector<std::string> expected = {"state={\"a\":1}", "message=one\ntwo", "message=", "message=x"};
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    EventReader reader;
    EXPECT_EQ(read_all(reader, text, piece), expected) << piece;
    EXPECT_EQ(reader.last_id(), "3-9");
    EXPECT_EQ(reader.retry(), std::chrono::milliseconds(2000));
  }
}

TEST(EventReader, AnIdCountsAfterItsEventIsComplete) {
  EventReader reader;
  read_all(reader, "id: 1\ndata: x\n\nid: 2\ndata: half", 5);
  EXPECT_EQ(reader.last_id(), "1");
  reader.restart();
  EXPECT_EQ(read_all(reader, "data: y\n\n", 3), std::vector<std::string>{"message=y"});
  EXPECT_EQ(reader.last_id(), "1");
}

TEST(EventReader, InvalidRetryIsIgnoredAndLongRetryIsBounded) {
  EventReader reader;
  read_all(reader, "retry: soon\n\n", 99);
  EXPECT_FALSE(reader.retry().has_value());
  read_all(reader, "retry: 999999999\n\n", 99);
  EXPECT_EQ(reader.retry(), std::chrono::milliseconds(60000));
}

TEST(EventReader, EndsOnRequest) {
  EventReader reader;
  int seen = 0;
  EXPECT_FALSE(reader.feed("data: 1\n\ndata: 2\n\n", [&](const ServerEvent&) { return ++seen < 1; }));
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace babelring

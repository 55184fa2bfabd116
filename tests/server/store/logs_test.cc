#include "server/store/logs.h"

#include <gtest/gtest.h>

#include "base/failure.h"
#include "base/json.h"
#include "server/store/runs.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring {
namespace {

using testing::Client;
using testing::record_of;
using testing::run_id;

class LogsTest : public ::testing::Test {
 protected:
  /// Lines "line N of rank R", alternating between two ranks, every hundredth a warning.
  void write(std::int64_t first, std::int64_t last) {
    for (const std::int64_t rank : {0, 1}) {
      std::vector<Record> records;
      for (std::int64_t n = first; n <= last; ++n) {
        LogRecord log{n % 100 == 0 ? "warn" : "info", "line " + std::to_string(n) + " of rank " + std::to_string(rank)};
        records.push_back(record_of(log, n, rank));
      }
      testing::put(server.store(), std::move(records));
    }
  }
  json::object get(const std::string& query) {
    const auto answer = Client(server.port()).get(path + query);
    EXPECT_EQ(answer.status, 200) << query << answer.body;
    return parse_json(answer.body).value().as_object();
  }
  std::vector<std::string> texts(const json::object& page) {
    std::vector<std::string> found;
    for (const auto& item : page.at("items").as_array()) found.emplace_back(item.at("text").as_string());
    return found;
  }
  std::string scalar(const std::string& sql) { return server.store().reader()->database.scalar(sql); }
  testing::TestServer server;
  const std::string path = "/api/v1/runs/" + run_id + "/logs";
};

TEST_F(LogsTest, PacksWhatIsOldAndReadsOverTheSeam) {
  write(1, 1200);
  EXPECT_EQ(scalar("SELECT count(*) FROM log_blocks"), "2");
  EXPECT_EQ(scalar("SELECT count(*) FROM log_lines"), "400");
  EXPECT_LT(std::stoi(scalar("SELECT max(bytes * 5 / raw_bytes) FROM log_blocks")), 1);  // at least five to one
  const auto tail = texts(get("?tail=3"));
  EXPECT_EQ(tail, (std::vector<std::string>{"line 1198 of rank 1", "line 1199 of rank 1", "line 1200 of rank 1"}));
  std::int64_t lines = 0, pages = 0;
  for (std::string query = "?after=0&limit=900"; pages < 10; ++pages) {
    const auto page = get(query);
    const auto& items = page.at("items").as_array();
    if (items.empty()) break;
    for (const auto& item : items) EXPECT_EQ(item.at("line").as_int64(), ++lines);
    query = "?limit=900&cursor=" + std::string(page.at("next_cursor").as_string());
  }
  EXPECT_EQ(lines, 2400);
}

TEST_F(LogsTest, FiltersByRankLevelAndText) {
  write(1, 1200);
  EXPECT_EQ(texts(get("?tail=2&rank=0")), (std::vector<std::string>{"line 1199 of rank 0", "line 1200 of rank 0"}));
  EXPECT_EQ(texts(get("?level=warn&after=0")).size(), 24u);
  EXPECT_EQ(texts(get("?level=error")).size(), 0u);
  EXPECT_EQ(texts(get("?q=line%2077%20of%20rank%201")), (std::vector<std::string>{"line 77 of rank 1"}));
  EXPECT_EQ(texts(get("?q=LINE")).size(), 0u);
  EXPECT_EQ(texts(get("?q=.*")).size(), 0u);    // a text, not a pattern
  const auto none = get("?q=nothing&after=5");  // searched lines are not searched again
  EXPECT_EQ(get("?cursor=" + std::string(none.at("next_cursor").as_string())).at("items").as_array().size(), 0u);
}

TEST_F(LogsTest, ComesAsLinesOfJsonOrText) {
  write(1, 3);
  Client client(server.port());
  const auto ndjson = client.get(path + "?rank=1", "Accept: application/x-ndjson\r\n");
  EXPECT_EQ(ndjson.headers.at("content-type"), "application/x-ndjson");
  EXPECT_EQ(ndjson.headers.at("link"), "<" + path + "?after=6>; rel=\"next\"");
  const std::string first = ndjson.body.substr(0, ndjson.body.find('\n'));
  EXPECT_EQ(parse_json(first).value().at("text"), "line 1 of rank 1");
  const auto text = client.get(path + "?tail=1", "Accept: text/plain\r\n");
  EXPECT_NE(text.body.find("[rank 1] info: line 3 of rank 1\n"), std::string::npos) << text.body;
}

TEST_F(LogsTest, AnswersAreBoundedAndNothingIsLost) {
  std::vector<Record> records;
  for (std::int64_t n = 1; n <= 60; ++n) {
    records.push_back(record_of(LogRecord{"info", std::to_string(n) + std::string(50'000, '"')}, n));
  }
  testing::put(server.store(), {records.begin(), records.begin() + 30});
  testing::put(server.store(), {records.begin() + 30, records.end()});
  std::int64_t lines = 0;
  for (std::string query = "?after=0"; lines < 60;) {
    const auto answer = Client(server.port()).get(path + query);
    ASSERT_LE(answer.body.size(), std::size_t{1} << 20);
    const auto page = parse_json(answer.body).value();
    ASSERT_FALSE(page.at("items").as_array().empty());
    for (const auto& item : page.at("items").as_array()) EXPECT_EQ(item.at("line").as_int64(), ++lines);
    query = "?cursor=" + std::string(page.at("next_cursor").as_string());
  }
  const auto tail = Client(server.port()).get(path + "?tail=60");
  EXPECT_LE(tail.body.size(), std::size_t{1} << 20);
  EXPECT_EQ(parse_json(tail.body).value().at("items").as_array().back().at("line"), 60);
}

TEST_F(LogsTest, OneHugeLineIsCutInTheAnswerOnly) {
  const std::string umlauts = [] {
    std::string text = "x";
    for (int i = 0; i < 100'000; ++i) text += "\xc3\xa4";
    return text;
  }();
  testing::put(server.store(), {record_of(LogRecord{"info", umlauts}, 1)});
  const auto shown = texts(get("")).at(0);
  EXPECT_LT(shown.size(), 70'000u);
  EXPECT_TRUE(shown.ends_with("more bytes]"));
  EXPECT_EQ(texts(get("?q=" + std::string("x%C3%A4"))).size(), 1u);
}

TEST_F(LogsTest, OldBlocksGoWhereTheRunsLimitIsReached) {
  testing::put(server.store(), {record_of(LogRecord{"info", "creates the run"}, 1, 5)});
  server.store().write([](store::Database& database) {
    database.execute("INSERT INTO retention(run, policy, max_log_bytes) VALUES (1, '{}', 30000)");
  });
  write(1, 6000);
  EXPECT_LE(std::stoi(scalar("SELECT sum(bytes) FROM log_blocks")), 30'000);
  EXPECT_GT(std::stoi(scalar("SELECT min(first) FROM log_blocks")), 1);
  EXPECT_EQ(texts(get("?tail=1")).at(0), "line 6000 of rank 1");
  EXPECT_GT(get("?after=0&limit=1").at("items").at(0).at("line").as_int64(), 1);
}

}  // namespace

}  // namespace babelring

namespace babelring::store {
namespace {

TEST(LogBlock, GivesBackWhatWasPutIn) {
  LogBlock block;
  const std::string nul("a\0b", 3), level(300, 'x');
  block.add({1, 0, 5, "info", "first"});
  block.add({2, 7, 6, level, nul});
  block.add({2, 3, 7, "", ""});
  EXPECT_EQ(block.lowest_rank(), 0);
  EXPECT_EQ(block.highest_rank(), 7);
  const std::string packed = block.compressed();
  const std::string raw = unpack_block(packed, block.raw_bytes());
  std::vector<LogLine> lines;
  visit_lines(raw, [&](const LogLine& line) {
    lines.push_back(line);
    return true;
  });
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text, "first");
  EXPECT_EQ(lines[1].text, nul);
  EXPECT_EQ(lines[1].level.size(), 255u);
  EXPECT_EQ(lines[1].rank, 7);
  EXPECT_EQ(lines[2].time_ms, 7);
}

TEST(LogBlock, RefusesDamage) {
  LogBlock block;
  block.add({1, 0, 5, "info", std::string(1000, 'x')});
  std::string packed = block.compressed();
  EXPECT_THROW(unpack_block(packed.substr(0, packed.size() / 2), block.raw_bytes()), Failure);
  EXPECT_THROW(unpack_block(packed, block.raw_bytes() + 1), Failure);
  const std::string raw = unpack_block(packed, block.raw_bytes());
  const auto all = [](const LogLine&) { return true; };
  EXPECT_THROW(visit_lines(std::string_view(raw).substr(0, 10), all), Failure);
  EXPECT_THROW(visit_lines(std::string_view(raw).substr(0, 100), all), Failure);
}

}  // namespace

}  // namespace babelring::store

#include <gtest/gtest.h>

#include "server/store/control.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring::api {
namespace {

using testing::Answer;
using testing::Client;
using testing::run_id;

/// Run 1, started by hand, whose rank 0 sends heartbeats.
class TracesTest : public ::testing::Test {
 protected:
  TracesTest() { testing::put(server_.store(), {testing::step_record(1, 1)}); }

  Answer post(const std::string& path, const std::string& body) {
    client_.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
                 testing::authorization() + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client_.receive();
  }
  Answer ask(const std::string& body = "{}") { return post(path_ + "/trace", body); }
  json::value shown() { return parse_json(client_.get(path_ + "/trace").body).value(); }
  std::string code(const Answer& answer) { return parse_json(answer.body)->at("code").as_string().c_str(); }
  std::string detail(const Answer& answer) { return parse_json(answer.body)->at("detail").as_string().c_str(); }

  /// The commands in the answer to a heartbeat. `more`: further members.
  json::array beat(const std::string& more, std::int64_t attempt = 1, std::int64_t rank = 0) {
    const Answer answer = post(path_ + "/heartbeat",
                               fmt::format(R"({{"attempt": {}, "rank": {}, "host": "hostA"{}}})", attempt, rank, more));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parse_json(answer.body)->at("commands").as_array();
  }
  json::array beat(std::int64_t done) { return beat(fmt::format(R"(, "trace_done": {})", done)); }

  testing::TestServer server_;
  Client client_{server_.port()};
  const std::string path_ = "/api/v1/runs/" + run_id;
};

TEST_F(TracesTest, CarriesARequestToRank0UntilItIsExecuted) {
  EXPECT_TRUE(beat(0).empty());
  const Answer asked = ask(R"({"updates": 5, "ops": false})");
  ASSERT_EQ(asked.status, 202) << asked.body;
  const std::string item = R"({"run":")" + run_id + R"(","attempt":1,"number":1,"updates":5,"ops":false,"under_way":)";
  EXPECT_EQ(asked.body, item + "true}");
  EXPECT_EQ(to_text(shown()), item + "true}");
  const std::string command = R"([{"kind":"trace","number":1,"updates":5,"ops":false}])";
  EXPECT_EQ(to_text(beat(0)), command);
  EXPECT_EQ(to_text(beat(0)), command) << "until rank 0 has executed it";
  EXPECT_TRUE(beat("", 1, 1).empty()) << "rank 0 tells the others";
  const Answer again = ask();
  EXPECT_EQ(again.status, 409);
  EXPECT_EQ(code(again), "trace_under_way");
  EXPECT_TRUE(beat(1).empty());
  EXPECT_EQ(to_text(shown()), item + "false}");
  const auto next = parse_json(ask().body).value();
  EXPECT_EQ(next.at("number"), 2);
  EXPECT_EQ(next.at("updates"), 3) << "by default";
  EXPECT_TRUE(next.at("ops").as_bool());
}

TEST_F(TracesTest, ANewAttemptKnowsNoRequest) {
  EXPECT_EQ(shown().at("number"), 0);
  beat(0);
  ASSERT_EQ(ask().status, 202);
  EXPECT_TRUE(beat(R"(, "trace_done": 0)", 2).empty()) << "attempt 2";
  EXPECT_EQ(shown().at("number"), 0);
  EXPECT_FALSE(shown().at("under_way").as_bool());
  const auto first = parse_json(ask().body).value();
  EXPECT_EQ(first.at("attempt"), 2);
  EXPECT_EQ(first.at("number"), 1);
}

TEST_F(TracesTest, RefusesNumbersOutOfBounds) {
  beat(0);
  for (const char* updates : {"0", "-1", "21", "9000000000"}) {
    const Answer refused = ask(fmt::format(R"({{"updates": {}}})", updates));
    EXPECT_EQ(refused.status, 422) << updates;
    EXPECT_EQ(code(refused), "trace_refused");
    EXPECT_EQ(detail(refused), fmt::format("updates: expected a number from 1 to 20, found {}", updates));
  }
  for (const char* body : {R"({"updates": "3"})", R"({"ops": 1})", R"({"op": true})"}) {
    EXPECT_EQ(code(ask(body)), "bad_body") << body;
  }
}

TEST_F(TracesTest, SaysIfRank0CannotBeReached) {
  EXPECT_EQ(code(ask()), "unreachable");
  beat(", \"trace_done\": 0", 1, 1);
  EXPECT_EQ(code(ask()), "unreachable") << "only rank 1 sends heartbeats";
  EXPECT_TRUE(beat("").empty());
  EXPECT_NE(detail(ask()).find("its worker is of an older version"), std::string::npos);
  testing::put(server_.store(), {testing::record_of(LifecycleRecord{.event = "stopped"}, 2)});
  EXPECT_EQ(code(ask()), "state_conflict");
  EXPECT_EQ(detail(ask()), "run " + run_id + " is stopped: it cannot be traced");
}

}  // namespace
}  // namespace babelring::api

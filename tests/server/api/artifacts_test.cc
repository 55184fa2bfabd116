#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/digest.h"
#include "server/store/checkpoints.h"
#include "server/store/control.h"
#include "tests/server/api_fixture.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

namespace babelring {
namespace {

using testing::Answer;
using testing::Client;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::record_of;

class ArtifactsTest : public testing::ApiFixture {
 protected:
  ArtifactsTest() { std::filesystem::create_directories(lab); }

  /// Writes a file into `folder` and reports it. Returns its path of the API.
  std::string make(const std::string& kind, std::int64_t update, const std::string& bytes = "bytes",
                   const json::value& content = nullptr) {
    ArtifactRecord artifact{.update = update, .name = fmt::format("{}-{:08}.json", kind, update), .artifact = kind};
    artifact.folder = lab;
    artifact.size = static_cast<std::int64_t>(bytes.size());
    artifact.sha256 = sha256_hex(bytes);
    artifact.content = content;
    std::ofstream(lab / artifact.name, std::ios::binary) << bytes;
    return report(artifact);
  }
  std::string report(const ArtifactRecord& artifact) {
    return "/api/v1/artifacts/" + testing::put(server.store(), {record_of(artifact, ++sequence)}).fresh.at(0).id;
  }
  Answer ask(const std::string& path, const std::string& headers = "") {
    return Client(server.port()).get(path, headers);
  }
  /// "410 removed" of a problem, "200" of a success.
  std::string outcome(const Answer& answer) {
    const std::string status = std::to_string(answer.status);
    return answer.status < 300 ? status : status + ' ' + std::string(object(answer).at("code").as_string());
  }
  std::vector<std::string> names(const std::string& query = "") {
    std::vector<std::string> names;
    const json::object page = get(run_path("/artifacts" + query));
    for (const json::value& item : page.at("items").as_array()) {
      names.emplace_back(item.at("name").as_string());
    }
    return names;
  }

  std::filesystem::path lab = server.folder() / "run/lab";
  std::int64_t sequence = 0;
};

TEST_F(ArtifactsTest, ListsNewestUpdateFirstByKind) {
  make("probe", 10);
  const json::value content = {{"rows", json::array{1, nullptr}}};
  const std::string path = make("parameters", 20, "{}", content);
  make("probe", 15);
  EXPECT_THAT(names(), ElementsAre("parameters-00000020.json", "probe-00000015.json", "probe-00000010.json"));
  EXPECT_THAT(names("?kind=probe"), ElementsAre("probe-00000015.json", "probe-00000010.json"));
  EXPECT_TRUE(names("?kind=graph").empty());
  EXPECT_EQ(ask(run_path("/artifacts?kind=dream")).status, 400);

  json::object page = get(run_path("/artifacts?limit=2"));
  EXPECT_EQ(page.at("items").as_array().size(), 2U);
  const json::object last =
      get(run_path("/artifacts?limit=2&cursor=" + std::string(page.at("next_cursor").as_string())));
  EXPECT_EQ(last.at("items").at(0).at("name"), "probe-00000010.json");
  EXPECT_TRUE(last.at("next_cursor").is_null());

  json::object one = get(path);
  EXPECT_EQ(one.at("content"), content);
  EXPECT_EQ(one.at("content_bytes"), 17);
  EXPECT_EQ(one.at("sha256").as_string(), sha256_hex("{}"));
  one.erase("content");
  EXPECT_EQ(json::value(one), page.at("items").at(0)) << "lists have no contents";
  EXPECT_EQ(outcome(ask("/api/v1/artifacts/f_00000000000000000000000000")), "404 artifact_unknown");
  EXPECT_EQ(outcome(ask(path + "?removed=true")), "400 unknown_parameter");
}

TEST_F(ArtifactsTest, HandsOutTheFile) {
  const std::string path = make("trace", 3, "0123456789") + "/file";
  const Answer whole = ask(path);
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body, "0123456789");
  const std::string etag = '"' + sha256_hex("0123456789") + '"';
  EXPECT_EQ(whole.headers.at("etag"), etag);
  const Answer part = ask(path, "Range: bytes=2-4\r\n");
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, "234");
  EXPECT_EQ(ask(path, "Range: bytes=10-\r\n").status, 416);
  EXPECT_EQ(ask(path, "If-None-Match: " + etag + "\r\n").status, 304);
  const Answer head = Client(server.port()).request("HEAD", path);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "10");
  EXPECT_EQ(head.body, "");
}

TEST_F(ArtifactsTest, ANewFileOfTheSameNameReplacesTheEarlierOne) {
  const std::string path = make("probe", 10, "old", {{"a", 1}});
  EXPECT_EQ(make("probe", 10, "newer"), path);
  EXPECT_EQ(ask(path + "/file").body, "newer");
  EXPECT_TRUE(get(path).at("content").is_null());
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(ArtifactsTest, ARemovedOneIsListedOnRequest) {
  const std::string path = make("probe", 10, "old", {{"a", 1}});
  ArtifactRecord removal{.name = "probe-00000010.json", .artifact = "probe"};
  removal.removed = true;
  EXPECT_EQ(report(removal), path);
  EXPECT_TRUE(names().empty());
  EXPECT_EQ(names("?removed=true").size(), 1U);
  EXPECT_EQ(get(path).at("update"), 10);
  EXPECT_TRUE(get(path).at("content").is_null());
  EXPECT_EQ(outcome(ask(path + "/file")), "410 removed");
  EXPECT_EQ(make("probe", 10, "again"), path);
  EXPECT_EQ(ask(path + "/file").body, "again");
  removal.name = "probe-unknown.json";
  EXPECT_EQ(report(removal), "/api/v1/artifacts/") << "nothing to remove";
}

TEST_F(ArtifactsTest, ServesOnlyFilesOfAFolderLabBelowARoot) {
  ArtifactRecord artifact{.update = 1, .name = "probe-1.jsonl", .artifact = "probe"};
  artifact.size = 6;
  artifact.sha256 = sha256_hex("secret");
  const auto refusal = [&](const std::filesystem::path& folder, const std::string& name) {
    artifact.folder = folder;
    artifact.name = name;
    return outcome(ask(report(artifact) + "/file"));
  };
  std::ofstream(server.folder() / "run/secret") << "secret";
  std::ofstream(lab / "probe-1.jsonl") << "secret";
  EXPECT_EQ(refusal(lab, "probe-1.jsonl"), "200");
  EXPECT_EQ(refusal(lab / "../lab", "probe-1.jsonl"), "200");
  EXPECT_EQ(refusal(server.folder() / "run", "secret"), "409 outside_roots") << "not called lab";
  EXPECT_EQ(refusal(lab / "..", "secret"), "409 outside_roots");
  EXPECT_EQ(refusal("/tmp/lab", "secret"), "409 outside_roots");
  EXPECT_EQ(refusal("run/lab", "probe-1.jsonl"), "409 outside_roots") << "relative";
  EXPECT_EQ(refusal("", "probe-1.jsonl"), "409 outside_roots");
  std::filesystem::create_symlink(server.folder() / "run/secret", lab / "link");
  EXPECT_EQ(refusal(lab, "link"), "410 gone");
  EXPECT_EQ(refusal(lab, "../secret"), "410 gone");
  EXPECT_EQ(refusal(lab, "absent"), "410 gone");
  artifact.size = 7;
  EXPECT_EQ(refusal(lab, "probe-1.jsonl"), "409 damaged");
}

TEST_F(ArtifactsTest, RefusesRecordsThatDoNotFit) {
  ArtifactRecord good{.update = 1, .name = "probe-1.jsonl", .artifact = "probe", .sha256 = std::string(64, 'a')};
  const auto refusal = [&](const auto& change) {
    ArtifactRecord bad = good;
    change(bad);
    const Answer answer = post({record_of(bad, ++sequence)});
    return answer.status == 200 ? "" : std::string(object(answer).at("detail").as_string());
  };
  EXPECT_EQ(refusal([](ArtifactRecord&) {}), "");
  EXPECT_EQ(refusal([](ArtifactRecord& bad) { bad.artifact = "dream"; }),
            "records[0]: artifact: expected probe, trace, parameters, memory, graph, profile");
  for (const std::string name : {"", ".", "..", "a/b"}) {
    EXPECT_EQ(refusal([&](ArtifactRecord& bad) { bad.name = name; }),
              "records[0]: name: expected a file name of at most 255 bytes");
  }
  EXPECT_THAT(refusal([](ArtifactRecord& bad) { bad.name = "a\nb"; }), HasSubstr("records[0].name: "));
  EXPECT_EQ(refusal([](ArtifactRecord& bad) { bad.sha256 = "00"; }),
            "records[0]: sha256: expected 64 hexadecimal digits");
  EXPECT_EQ(refusal([](ArtifactRecord& bad) { bad.size = -1; }),
            "records[0]: size: expected an integer from 0 to 9007199254740992, found -1");
  EXPECT_EQ(refusal([](ArtifactRecord& bad) { bad.content = json::string(max_artifact_content_bytes, 'x'); }),
            "records[0]: content: expected at most 262144 bytes of JSON");
  EXPECT_EQ(refusal([](ArtifactRecord& bad) { bad.content = json::string(max_artifact_content_bytes - 2, 'x'); }), "");
}

TEST_F(ArtifactsTest, TellsTheEventStream) {
  Client stream(server.port());
  stream.send("GET /api/v1/events?topic=artifact HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization() + "\r\n");
  EXPECT_THAT(stream.read_until("retry:"), HasSubstr("200 OK"));
  ArtifactRecord artifact{.update = 7, .name = "probe-7.jsonl", .artifact = "probe", .sha256 = std::string(64, 'a')};
  ASSERT_EQ(post({record_of(artifact, ++sequence)}).status, 200);
  EXPECT_THAT(stream.read_until("probe-7.jsonl"), HasSubstr("event: artifact"));
}

}  // namespace

}  // namespace babelring

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

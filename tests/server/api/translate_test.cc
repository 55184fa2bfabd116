#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <future>

#include "base/digest.h"
#include "base/json.h"
#include "server/translate/pool.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::Client;
using testing::record_of;

/// Checkpoints named as the fake translator shall behave.
class TranslateTest : public ::testing::Test {
 protected:
  std::string checkpoint(const std::string& name) {
    const auto folder = server.folder() / "run" / name;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "state.json") << "{}";
    CheckpointRecord record;
    record.update = ++sequence_;
    record.name = name;
    record.folder = folder;
    record.files = {{"state.json", 2, sha256_hex("{}")}};
    const auto result = testing::put(server.store(), {record_of(record, sequence_)});
    return "/api/v1/checkpoints/" + result.fresh.at(0).id;
  }
  void begin(std::chrono::milliseconds deadline = std::chrono::minutes(10)) {
    translate::PoolOptions options;
    options.program = BABELRING_BIN_DIR "/fake_translator";
    options.max_helpers = 1;
    options.queue.requests = 1;
    options.deadline = deadline;
    end();
    pool_ = std::make_unique<translate::Pool>(options);
    server.service().translators = pool_.get();
  }
  void end() {
    server.service().translators = nullptr;
    pool_.reset();
  }
  testing::Answer ask(const std::string& path, const std::string& body) {
    return Client(server.port()).post(path + "/translate", body);
  }
  void expect_problem(const testing::Answer& answer, int status, const std::string& code) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(parse_json(answer.body).value().at("code").as_string(), code) << answer.body;
  }

  testing::TestServer server;

  std::unique_ptr<translate::Pool> pool_;  // ends before the server

 private:
  std::int64_t sequence_ = 0;
};

TEST_F(TranslateTest, AnswersLineByLine) {
  begin();
  const std::string path = checkpoint("update-00000001");
  const auto answer = ask(path, R"({"text":["abc","de"],"beam":3,"nbest":2,"length_penalty":0.5})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto body = parse_json(answer.body).value();
  EXPECT_EQ(body.at("checkpoint").as_string(), path.substr(path.rfind('/') + 1));
  EXPECT_EQ(body.at("items").at(0).at("hyp").as_string(), "cba");
  EXPECT_EQ(body.at("items").at(1).at("hyp").as_string(), "ed");
  EXPECT_FALSE(body.as_object().contains("id"));
}

TEST_F(TranslateTest, StreamsEvents) {
  begin();
  const std::string path = checkpoint("update-00000001");
  const auto stream = [&](const std::string& text) {
    Client client(server.port());
    const std::string body = R"({"stream":true,"text":)" + text + "}";
    client.send("POST " + path + "/translate HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization() +
                "Connection: close\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    std::string given = client.read_until("no such text: to the end");
    EXPECT_TRUE(client.closed());
    return given;
  };
  const std::string given = stream(R"(["abc","de"])");
  EXPECT_TRUE(given.starts_with("HTTP/1.1 200 OK\r\n")) << given;
  EXPECT_NE(given.find("Content-Type: text/event-stream\r\n"), std::string::npos) << given;
  std::vector<std::string> events, items;
  std::string data;
  for (auto at = given.find("event: "); at != std::string::npos; at = given.find("event: ", at + 1)) {
    const auto middle = given.find("\ndata: ", at), end = given.find("\n\n", at);
    ASSERT_TRUE(middle < end) << given;
    events.push_back(given.substr(at + 7, middle - at - 7));
    data = given.substr(middle + 7, end - middle - 7);
    if (events.back() == "item") items.push_back(to_text(parse_json(data).value().at("item").at("hyp")));
  }
  ASSERT_FALSE(events.empty()) << given;
  EXPECT_EQ(events.back(), "done");
  EXPECT_EQ(std::count(events.begin(), events.end(), "done"), 1);
  EXPECT_EQ(items, (std::vector<std::string>{"\"cba\"", "\"ed\""}));
  const auto whole = parse_json(ask(path, R"({"text":["abc","de"],"stream":false})").body).value();
  EXPECT_EQ(parse_json(data).value(), whole) << "as without a stream";

  const std::string refused = stream(R"(["long"])");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 422 ")) << "nothing was streamed before: " << refused;
  const std::string broken = stream(R"(["abc","long"])");
  EXPECT_TRUE(broken.starts_with("HTTP/1.1 200 OK\r\n")) << broken;
  const auto error = broken.find("event: error\ndata: ");
  ASSERT_NE(error, std::string::npos) << broken;
  EXPECT_NE(broken.find("\"code\":\"too_long\"", error), std::string::npos) << broken;
  EXPECT_EQ(broken.find("event: done"), std::string::npos);
  expect_problem(ask(path, R"({"text":["a"],"stream":"yes"})"), 400, "bad_body");
}

TEST_F(TranslateTest, AnEnsembleHasAProcessOfItsOwn) {
  begin();
  std::vector<std::string> paths, ids;
  for (const char* name : {"update-00000001", "update-00000002", "update-00000003"}) {
    paths.push_back(checkpoint(name));
    ids.push_back(paths.back().substr(paths.back().rfind('/') + 1));
  }
  const std::string others = fmt::format(R"("checkpoints":["{}","{}"])", ids[0], ids[1]);
  const auto answer = ask(paths[2], R"({"text":["abc"],"weights":[2,1,0.5],"combine":"logarithms",)" + others + "}");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto body = parse_json(answer.body).value();
  EXPECT_EQ(body.at("checkpoint").as_string(), ids[2]);
  EXPECT_EQ(to_text(body.at("checkpoints")), fmt::format(R"(["{}","{}","{}"])", ids[2], ids[0], ids[1]));
  EXPECT_EQ(body.at("items").at(0).at("hyp").as_string(), "cba");
  const auto words = [&] {
    std::ifstream in(fmt::format("/proc/{}/cmdline", pool_->loaded().at(0).pid));
    std::string text{std::istreambuf_iterator<char>(in), {}};
    std::ranges::replace(text, '\0', ' ');
    return text;
  };
  const std::string run = (server.folder() / "run").string();
  EXPECT_TRUE(words().ends_with(fmt::format(
      "--weights 2,1,0.5 --combine logarithms --checkpoint {0}/update-00000003 --checkpoint {0}/update-00000001 "
      "--checkpoint {0}/update-00000002 ",
      run)))
      << words();
  const pid_t first = pool_->loaded().at(0).pid;
  ASSERT_EQ(ask(paths[2], R"({"text":["abc"],"weights":[2,1,0.5],"combine":"logarithms",)" + others + "}").status, 200);
  EXPECT_EQ(pool_->loaded().at(0).pid, first) << "the same ensemble keeps its process";
  const auto alone = ask(paths[2], R"({"text":["abc"],"checkpoints":null})");
  ASSERT_EQ(alone.status, 200);
  EXPECT_NE(pool_->loaded().at(0).pid, first);
  EXPECT_EQ(alone.body.find("\"checkpoints\""), std::string::npos);
  const std::string one = R"("checkpoints":[")" + ids[0] + R"("])";
  for (const std::string& wrong :
       {R"("checkpoints":[")" + ids[2] + R"("])", R"("checkpoints":[")" + ids[0] + R"(",")" + ids[0] + R"("])",
        std::string(R"("checkpoints":[])"), std::string(R"("checkpoints":[1])"), std::string(R"("weights":[1])"),
        std::string(R"("combine":"logarithms")"), one + R"(,"weights":[1])", one + R"(,"weights":[1,0])",
        one + R"(,"weights":[1,1e9])", one + R"(,"combine":"product")"}) {
    expect_problem(ask(paths[2], R"({"text":["a"],)" + wrong + "}"), 400, "bad_body");
  }
  expect_problem(ask(paths[2], R"({"text":["a"],"checkpoints":["c_00000000000000000000000000"]})"), 404,
                 "checkpoint_unknown");
}

TEST_F(TranslateTest, RefusesWhatIsNoRequest) {
  begin();
  const std::string path = checkpoint("update-00000001");
  const std::string many = "[" + [] {
    std::string lines = "\"a\"";
    for (int i = 0; i < 32; ++i) lines += ",\"a\"";
    return lines;
  }() + "]";
  for (const std::string& body :
       {std::string("{}"), std::string(R"({"text":"a"})"), std::string(R"({"text":[]})"),
        std::string(R"({"text":[1]})"), R"({"text":)" + many + "}", std::string(R"({"text":["a"],"beam":13})"),
        std::string(R"({"text":["a"],"beam":0})"), std::string(R"({"text":["a"],"beam":2,"nbest":3})"),
        std::string(R"({"text":["a\nb"]})"), std::string(R"({"text":["a"],"id":1})"),
        std::string(R"({"text":["a"],"max_subwords":4096})"), std::string(R"({"text":["a"],"most_pieces":4096})"),
        std::string(R"({"text":["a"],"n_best":50})")}) {
    expect_problem(ask(path, body), 400, "bad_body");
  }
  expect_problem(ask(path, R"({"text":["long"]})"), 422, "too_long");
  expect_problem(ask(path, R"({"text":[")" + std::string(17000, 'a') + R"("]})"), 422, "too_long");
  expect_problem(ask("/api/v1/checkpoints/c_00000000000000000000000000", R"({"text":["a"]})"), 404,
                 "checkpoint_unknown");
}

TEST_F(TranslateTest, PassesOptionsOnToTheTranslatorWhichChecksThem) {
  begin();
  const std::string path = checkpoint("update-00000001");
  const auto answer = ask(path, R"({"text":["abc"],"min_length":7,"length_penalty":null})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(parse_json(answer.body)->at("items").at(0).at("hyp"), "cba+7");
  for (const std::string option : {R"("speed":1)", R"("min_length":"a")"}) {
    expect_problem(ask(path, R"({"text":["abc"],)" + option + "}"), 400, "bad_body");
  }
}

TEST_F(TranslateTest, SaysWhatIsWrongWithTheTranslator) {
  const std::string path = checkpoint("update-00000001");
  expect_problem(ask(path, R"({"text":["a"]})"), 503, "no_translator");
  begin(std::chrono::milliseconds(500));
  testing::Answer late;
  EXPECT_TRUE(soon([&] {  // it may be late before its turn has come
    late = ask(path, R"({"text":["hang"]})");
    return late.body.find("\"busy\"") == std::string::npos;
  }));
  expect_problem(late, 503, "translator_late");
  begin();
  expect_problem(ask(path, R"({"text":["die"]})"), 500, "translator_failed");
  EXPECT_EQ(ask(path, R"({"text":["abc"]})").status, 200) << "a fresh one";
  EXPECT_EQ(Client(server.port()).get("/healthz").status, 200);
}

TEST_F(TranslateTest, HandlersDoNotWaitForTranslators) {
  begin();
  const std::string path = checkpoint("update-00000001");
  const auto ask_to_hang = [&] {
    return std::async(std::launch::async, [&] { return ask(path, R"({"text":["hang"]})"); });
  };
  auto first = ask_to_hang();
  ASSERT_TRUE(soon([&] { return !pool_->loaded().empty() && pool_->loaded()[0].busy; }));
  std::vector<std::future<testing::Answer>> answers;
  for (int i = 0; i < 7; ++i) answers.push_back(ask_to_hang());
  EXPECT_EQ(Client(server.port()).get("/api/v1/runs").status, 200) << "others are served meanwhile";
  const auto open = [&] {
    return std::count_if(answers.begin(), answers.end(), [](const auto& one) {
      return one.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    });
  };
  EXPECT_TRUE(soon([&] { return open() <= 1; }));
  EXPECT_EQ(open(), 1) << "one waits";
  end();
  answers.push_back(std::move(first));
  for (auto& answer : answers) {
    const auto given = answer.get();
    expect_problem(given, 503, "busy");
    EXPECT_FALSE(given.headers.at("retry-after").empty());
  }
}

}  // namespace
}  // namespace babelring

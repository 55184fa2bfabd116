#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "nmt/base/digest.h"
#include "nmt/base/json.h"
#include "server/translate/pool.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"

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
  void begin(std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    translate::PoolOptions options;
    options.program = BABELRING_BIN_DIR "/fake_translator";
    options.most_helpers = 1;
    options.queue = 1;
    options.deadline = deadline;
    pool_ = std::make_unique<translate::Pool>(options);
    server.service().translators = pool_.get();
  }
  testing::Answer ask(const std::string& path, const std::string& body) {
    return Client(server.port()).post(path + "/translate", body);
  }
  void expect_problem(const testing::Answer& answer, int status, const std::string& code) {
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(parse_json(answer.body).value().at("code").as_string(), code) << answer.body;
  }

  testing::TestServer server;

 private:
  std::int64_t sequence_ = 0;
  std::unique_ptr<translate::Pool> pool_;  // ends before the server
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
        std::string(R"({"text":["a"],"length_penalty":-1})"), std::string(R"({"text":["a\nb"]})"),
        std::string(R"({"text":["a"],"speed":1})")}) {
    expect_problem(ask(path, body), 400, "bad_body");
  }
  expect_problem(ask(path, R"({"text":["long"]})"), 422, "too_long");
  expect_problem(ask(path, R"({"text":[")" + std::string(17000, 'a') + R"("]})"), 422, "too_long");
  expect_problem(ask("/api/v1/checkpoints/c_00000000000000000000000000", R"({"text":["a"]})"), 404,
                 "checkpoint_unknown");
}

TEST_F(TranslateTest, SaysWhatIsWrongWithTheTranslator) {
  const std::string path = checkpoint("update-00000001");
  expect_problem(ask(path, R"({"text":["a"]})"), 503, "no_translator");
  begin(std::chrono::seconds(1));
  expect_problem(ask(path, R"({"text":["die"]})"), 500, "translator_failed");
  expect_problem(ask(path, R"({"text":["hang"]})"), 503, "translator_late");
  EXPECT_EQ(ask(path, R"({"text":["abc"]})").status, 200) << "a fresh one each time";
  EXPECT_EQ(Client(server.port()).get("/healthz").status, 200);
}

TEST_F(TranslateTest, HandlersDoNotWaitForTranslators) {
  begin(std::chrono::seconds(3));
  const std::string path = checkpoint("update-00000001");
  std::vector<std::future<testing::Answer>> answers;
  for (int i = 0; i < 8; ++i) {
    answers.push_back(std::async(std::launch::async, [&] { return ask(path, R"({"text":["hang"]})"); }));
  }
  EXPECT_EQ(Client(server.port()).get("/api/v1/runs").status, 200) << "others are served meanwhile";
  int busy = 0;
  for (auto& answer : answers) {
    const auto given = answer.get();
    EXPECT_EQ(given.status, 503) << given.body;
    busy += parse_json(given.body).value().at("code").as_string() == "busy";
    EXPECT_FALSE(given.headers.at("retry-after").empty());
  }
  EXPECT_GE(busy, 6) << "one is being answered, one waits";
}

}  // namespace
}  // namespace babelring

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/json.h"
#include "tests/server/test_server.h"

namespace babelring {
namespace {

using testing::Client;

/// Names that the page shows and programs print in lines.
class NamesTest : public ::testing::Test {
 protected:
  /// The pointer of a 422 response, or another response's text.
  static std::string pointer(const testing::Answer& answer) {
    if (answer.status != 422) return std::to_string(answer.status) + ' ' + answer.body;
    return parse_json(answer.body)->at("errors").at(0).at("pointer").as_string().c_str();
  }
  std::string report(RecordBody body) {
    return pointer(client.post(testing::records_path(), testing::batch_text({testing::record_of(std::move(body), 1)})));
  }
  static CheckpointRecord saved(const std::string& file, const std::string& digest = std::string(64, 'a')) {
    CheckpointRecord record;
    record.update = 1;
    record.name = "update-00000001";
    record.folder = "/nowhere/update-00000001";
    record.files = {{file, 1, digest}};
    return record;
  }
  std::string stored_runs() { return server.store().reader()->database.scalar("SELECT count(*) FROM runs"); }
  testing::TestServer server;
  Client client{server.port()};
};

TEST_F(NamesTest, RefusesFileNamesThatForgeDigestLines) {
  const std::string forged = "w\n" + std::string(64, '0') + "  /etc/passwd";
  EXPECT_EQ(report(saved(forged)), "/records/0/files/0/name");
  EXPECT_EQ(report(saved("w", "0\n0000  /etc/passwd")), "/records/0");
  EXPECT_EQ(report(saved("w", std::string(64, 'g'))), "/records/0");
  EXPECT_EQ(report(saved("w\x01")), "/records/0/files/0/name");
  EXPECT_EQ(stored_runs(), "0");
  // Names that an older release accepted.
  const auto old = testing::put(server.store(), {testing::record_of(saved(forged), 1)});
  const auto sums = client.get("/api/v1/checkpoints/" + old.fresh.at(0).id + "/SHA256SUMS");
  EXPECT_EQ(sums.status, 409);
  EXPECT_EQ(sums.body.find(std::string(64, '0') + "  /etc/passwd"), std::string::npos);
}

TEST_F(NamesTest, InRecordsHaveNoControlCharacters) {
  StepRecord step;
  step.update = 1;
  step.memory_bytes = {{"\u202eevil", 1}};
  EXPECT_EQ(report(step), "/records/0/memory_bytes");
  step.memory_bytes = {};
  step.gpu = {{"a\nb", 1}};
  EXPECT_EQ(report(step), "/records/0/gpu");
  step.gpu = {};
  step.corpus_loss = {{"a\u202e", 1}};
  EXPECT_EQ(report(step), "/records/0/corpus_loss");
  EXPECT_EQ(report(LifecycleRecord{.event = "started", .name = "x\u2066y"}), "/records/0/name");
  EXPECT_EQ(report(EvalRecord{.update = 1, .set = std::string("v\0", 2)}), "/records/0/set");
  Record record = testing::step_record(1, 1);
  record.header.host = "host\u202e";
  EXPECT_EQ(pointer(client.post(testing::records_path(), testing::batch_text({record}))), "/host");
  EXPECT_EQ(stored_runs(), "0");
}

TEST_F(NamesTest, RefusesControlCharactersInRunsAndLabels) {
  testing::put(server.store(), {testing::step_record(1, 1)});
  const std::string path = "/api/v1/runs/" + testing::run_id;
  const auto patch = [&](const std::string& body) {
    const std::string seen = "If-Match: " + client.get(path).headers.at("etag") + "\r\n";
    return client.request("PATCH", path, body, seen);
  };
  EXPECT_EQ(pointer(patch(R"({"name": "x\u0000y"})")), "/name");
  EXPECT_EQ(pointer(patch(R"({"name": "x\u202ey"})")), "/name");
  EXPECT_EQ(pointer(patch(R"({"labels": {"team/a": "a\nb"}})")), "/labels/team~1a");
  EXPECT_EQ(pointer(patch(R"({"labels": {"a\nb": "x"}})")), "/labels");
  EXPECT_EQ(patch(R"({"name": "Größe 日本語 العربية 👩‍🚀", "labels": {"équipe": "ñ"}})").status,
            200);
  EXPECT_EQ(pointer(client.post("/api/v1/runs:validate", R"({"config": "a: 1", "name": "x\u0000y"})")), "/name");
  EXPECT_EQ(pointer(client.post("/api/v1/runs", R"({"config": "a: 1", "labels": {"a": "\u0085"}})")), "/labels/a");
  EXPECT_EQ(pointer(client.post(path + "/evals", R"({"update": 1, "set": "v\u2028"})")), "/set");
  EXPECT_EQ(pointer(client.post(path + "/heartbeat", R"({"attempt": 1, "host": "h\u001b[2J"})")), "/host");
}

}  // namespace
}  // namespace babelring

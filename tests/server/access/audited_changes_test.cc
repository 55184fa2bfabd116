#include <sys/stat.h>

#include "base/files.h"
#include "server/store/alerts.h"
#include "server/store/control.h"
#include "tests/server/checkpoint_fixture.h"

namespace babelring {
namespace {

/// All changes of a run, a checkpoint or an alert that audit_test.cc does not cover.
class AuditedChangesTest : public testing::CheckpointFixture {
 protected:
  struct Change {
    std::string method, path, body;
    int status = 200;
  };

  void SetUp() override {
    const auto worker = server.folder() / "worker";
    write_file_atomically(worker, R"(#!/bin/sh
echo '{"config": "name: n", "name": "n", "max_updates": 60, "data_folder": "/d", "not_estimated": []}'
)");
    chmod(worker.c_str(), 0755);
    for (const std::int64_t update : {10, 20, 30}) checkpoints.push_back(make(update, 20, update == 30));
    EXPECT_EQ(ask("PUT", checkpoints[2] + "/pin").status, 204);
    queued = submit();
    stopped = submit();
    deleted = submit();
    for (const std::string& path : {stopped, deleted}) EXPECT_EQ(ask("POST", path + "/stop", "{}").status, 202);
    for (std::string& path : running) path = begin(submit());
    store::AlertRow row;
    row.rule = row.kind = "stall";
    alert = server.store().write([&](store::Database& database) { return store::raise_alert(database, row); })->id;
  }

  std::string submit() {
    const auto answer = ask("POST", "/api/v1/runs", R"({"config": "x: 1"})");
    EXPECT_EQ(answer.status, 202) << answer.body;
    return answer.headers.at("location");
  }
  std::string begin(const std::string& path) {
    const std::string id = path.substr(path.rfind('/') + 1);
    store::LaunchRow launched;
    launched.id = id;
    server.store().write([&](store::Database& database) {
      store::begin_attempt(database, launched, "mpirun", "", "test", 1);
      store::change_state(database, {id, store::RunEvent::reported, "test", "test"}, 2);
    });
    return path;
  }

  /// `round`: each checkpoint request is for another run, since a run accepts one per 10 s.
  std::vector<Change> changes(std::size_t round) {
    return {{"POST", "/api/v1/runs", R"({"config": "x: 1"})", 202},
            {"POST", queued + "/stop", "{}", 202},
            {"POST", stopped + "/resume", "{}", 202},
            {"POST", running[round] + "/checkpoint", "{}", 202},
            {"DELETE", deleted, "", 200},
            {"POST", run_path + "/evals", R"({"update": 1, "set": "test"})", 201},
            {"PUT", checkpoints[1] + "/pin", "", 204},
            {"DELETE", checkpoints[2] + "/pin", "", 204},
            {"DELETE", checkpoints[0], "", 204},
            {"POST", "/api/v1/alerts/" + alert + "/ack", "{}", 200},
            {"POST", "/api/v1/admin/backup", "", 202}};
  }

  /// The state of the tables and the disk.
  std::string state() {
    auto reader = server.store().reader();
    std::string text;
    for (const char* what :
         {"SELECT group_concat(id || state || checkpoint_wish || coalesce(deleted_ms, '')) FROM runs",
          "SELECT count(*) FROM transitions", "SELECT group_concat(removed || pinned || removing) FROM checkpoints",
          "SELECT group_concat(acknowledged_by) FROM alerts", "SELECT count(*) FROM evals",
          "SELECT count(*) FROM audit"}) {
      text += reader->database.scalar(what) + ";";
    }
    for (const std::int64_t update : {10, 20, 30}) {
      text += fmt::format("{}{}", std::filesystem::exists(folder_of(update)),
                          std::filesystem::exists(folder_of(update) / "pinned"));
    }
    return text + fmt::format("{}", std::filesystem::exists(server.folder() / "backups"));
  }

  std::vector<std::string> checkpoints;
  std::string queued, stopped, deleted, alert;
  std::array<std::string, 2> running;
};

/// The row is part of the change's transaction: if it cannot be written, nothing changes, neither in the tables nor on
/// disk.
TEST_F(AuditedChangesTest, NothingChangesWithoutItsRow) {
  const std::string before = state();
  server.store().write([](store::Database& database) {
    database.execute("CREATE TRIGGER closed BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'closed'); END");
  });
  for (const Change& change : changes(0)) {
    EXPECT_EQ(ask(change.method, change.path, change.body).status, 503) << change.method << " " << change.path;
    EXPECT_EQ(state(), before) << change.method << " " << change.path;
  }
  server.store().write([](store::Database& database) { database.execute("DROP TRIGGER closed"); });
  const std::int64_t rows_before = [&] {
    auto reader = server.store().reader();
    return std::stoll(reader->database.scalar("SELECT max(entry) FROM audit"));
  }();
  std::string expected, last = before;
  for (const Change& change : changes(1)) {
    EXPECT_EQ(ask(change.method, change.path, change.body).status, change.status)
        << change.method << " " << change.path;
    EXPECT_NE(state(), last) << change.method << " " << change.path;
    last = state();
    expected += fmt::format("{}{}{} {}", expected.empty() ? "" : ",", change.method, change.status, "test admin");
  }
  // One row each, although each is offered twice: with the change and with the response.
  auto reader = server.store().reader();
  EXPECT_EQ(reader->database.scalar(fmt::format(
                "SELECT group_concat(method || status || ' ' || actor) FROM (SELECT * FROM audit WHERE entry > {} "
                "ORDER BY entry)",
                rows_before)),
            expected);
}

}  // namespace
}  // namespace babelring

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "client/http_client.h"
#include "tests/server/certificate.h"
#include "tests/server/client.h"
#include "tests/server/server_program.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::arguments_for;
using testing::batch_text;
using testing::Client;
using testing::Process;
using testing::records_path;
using testing::run_id;
using testing::step_record;

TEST(ServerProgram, KeepsWhatItAcknowledgedWhenKilled) {
  testing::TemporaryFolder folder;
  std::int64_t acknowledged = 0;
  for (int round = 0; round < 3; ++round) {
    Process server({"--listen", "127.0.0.1:0", "--data", folder.path().string()});
    Client client(server.port(), server.token());
    const auto report = [&] {
      const std::int64_t next = acknowledged + 1;
      const auto answer =
          client.post(records_path(), batch_text({step_record(next, next), step_record(next + 1, next + 1)}));
      if (answer.status == 200) acknowledged += 2;
      return answer.status == 200;
    };
    ASSERT_TRUE(report());
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100 + 70 * round));
      server.end(SIGKILL);
    });
    while (report()) {
    }
    killer.join();
  }
  Process server({"--listen", "127.0.0.1:0", "--data", folder.path().string()});
  Client client(server.port(), server.token());
  const auto ranks = parse_json(client.get("/api/v1/runs/" + run_id + "/ranks").body).value();
  const auto& rank = ranks.at("items").at(0);
  EXPECT_GE(rank.at("records").as_int64(), acknowledged);  // the last batch may have been stored unheard
  EXPECT_EQ(rank.at("missing").as_int64(), 0);
  const auto series = parse_json(client.get("/api/v1/runs/" + run_id + "/metrics/loss?agg=raw").body).value();
  EXPECT_EQ(series.at("total").as_int64(), rank.at("records").as_int64());
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST(ServerProgram, SaysWhereItListensAndEndsInGoodOrder) {
  testing::TemporaryFolder folder;
  Process server({"--listen", "127.0.0.1:0", "--data", folder.path().string()});
  EXPECT_EQ(server.line(), "babelring server listening on http://127.0.0.1:" + std::to_string(server.port()) + "/");
  Client client(server.port(), server.token());
  const auto page = client.get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.headers.at("content-type").starts_with("text/html"));
  EXPECT_TRUE(page.headers.at("content-security-policy").starts_with("default-src 'none'"));
  const auto packed = client.get("/", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(packed.headers.at("content-encoding"), "gzip");
  EXPECT_EQ(client.get("/", "If-None-Match: " + packed.headers.at("etag") + "\r\n").status, 304);
  EXPECT_EQ(client.get("/absent.js").status, 404);
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST(ServerProgram, KeepsItsFirstTokenForItsOwnerAlone) {
  testing::TemporaryFolder folder;
  const std::filesystem::path data = folder.path() / "new";
  const std::vector<std::string> arguments = {"--listen", "127.0.0.1:0", "--data", data.string()};
  std::string first;
  {
    Process server(arguments);
    first = server.token();
    const auto mode_of = [](const std::filesystem::path& path) { return std::filesystem::status(path).permissions(); };
    EXPECT_EQ(mode_of(data), std::filesystem::perms::owner_all);
    EXPECT_EQ(mode_of(data / "admin.token"), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    EXPECT_EQ(Client(server.port(), first).get("/api/v1/audit").status, 200);
    EXPECT_EQ(Client(server.port(), "").get("/api/v1/runs").status, 401);
    EXPECT_EQ(Client(server.port(), "").get("/").status, 200);
    EXPECT_EQ(Client(server.port(), "").get("/readyz").status, 200);
  }
  {
    Process again(arguments);
    EXPECT_EQ(again.token(), first);
    EXPECT_EQ(Client(again.port(), first).get("/api/v1/runs").status, 200);
  }
  auto anew = arguments;
  anew.emplace_back("--new-admin-token");
  Process lost(anew);
  EXPECT_NE(lost.token(), first);
  EXPECT_EQ(Client(lost.port(), lost.token()).get("/api/v1/tokens").status, 200);
  EXPECT_EQ(lost.end(SIGTERM), 0);
  auto open = arguments;
  open.emplace_back("--without-tokens");
  Process nobody(open);
  EXPECT_EQ(Client(nobody.port(), "").get("/api/v1/runs").status, 200);
}

TEST(ServerProgram, RestoresABackupAndEnds) {
  testing::TemporaryFolder folder;
  const std::vector<std::string> arguments = {"--listen", "127.0.0.1:0", "--data", folder.path().string()};
  auto restoring = arguments;
  {
    Process server(arguments);
    Client client(server.port(), server.token());
    client.post(records_path(), batch_text({step_record(1, 1)}));
    ASSERT_EQ(client.post("/api/v1/admin/backup", "").status, 202);
    json::object backup;
    ASSERT_TRUE(soon([&] {
      backup = parse_json(client.get("/api/v1/admin/backup").body).value().as_object();
      return backup.at("state") == "done";
    })) << to_text(backup);
    client.post(records_path(), batch_text({step_record(2, 2)}));
    restoring.insert(restoring.end(), {"--restore", std::string(backup.at("file").as_string())});
    EXPECT_EQ(WEXITSTATUS(Process(restoring).end(0)), 1) << "the server holds its folder";
    EXPECT_EQ(server.end(SIGKILL), SIGKILL);
  }
  Process restore(restoring);
  EXPECT_TRUE(restore.line().starts_with("the database that was there is now " + folder.path().string() +
                                         "/babelring-replaced-"))
      << restore.line();
  EXPECT_EQ(WEXITSTATUS(restore.end(0)), 0);
  Process server(arguments);
  Client client(server.port(), server.token());
  const auto run = parse_json(client.get("/api/v1/runs/" + run_id).body).value();
  EXPECT_EQ(run.at("update"), 1);
}

TEST(ServerProgram, DoesNotTakeALostDatabaseForANewOne) {
  testing::TemporaryFolder folder;
  std::string token;
  {
    Process server(arguments_for(folder.path()));
    token = server.token();
    EXPECT_EQ(server.end(SIGKILL), SIGKILL);
  }
  std::filesystem::resize_file(folder.path() / "babelring.db", 0);
  for (const char* suffix : {"-wal", "-shm"})
    std::filesystem::remove(folder.path() / ("babelring.db" + std::string(suffix)));
  Process refused(arguments_for(folder.path()));
  EXPECT_EQ(WEXITSTATUS(refused.end(0)), 1);
  EXPECT_TRUE(refused.log().starts_with("server: data folder " + folder.path().string() + ": babelring.db is empty"))
      << refused.log();
  EXPECT_EQ(refused.token(), token) << "the file of the administrator's token is as it was";
  Process anew(arguments_for(folder.path(), {"--new-database"}));
  EXPECT_NE(anew.token(), token);
  EXPECT_EQ(Client(anew.port(), anew.token()).get("/api/v1/runs").status, 200);
  EXPECT_EQ(anew.end(SIGTERM), 0);
  Process mistaken(arguments_for(folder.path(), {"--new-database"}));
  EXPECT_EQ(WEXITSTATUS(mistaken.end(0)), 1) << "it throws no database away";
}

TEST(ServerProgram, ChecksAStartWithoutStarting) {
  testing::TemporaryFolder folder;
  const auto data = folder.path() / "data", profiles = folder.path() / "profiles.yaml";
  const auto checked = [&](std::vector<std::string> more) {
    more.emplace_back("--check");
    return WEXITSTATUS(Process(arguments_for(data, std::move(more))).end(0));
  };
  write_file_atomically(profiles, "small: {max_ranks: 2}\n");
  EXPECT_EQ(checked({"--profiles", profiles.string()}), 0);
  EXPECT_FALSE(std::filesystem::exists(data));
  write_file_atomically(profiles, "small: {max_ranks: none}\n");
  EXPECT_EQ(checked({"--profiles", profiles.string()}), 1);
  EXPECT_EQ(checked({"--checkpoint-root", (folder.path() / "absent").string()}), 1);
  EXPECT_EQ(checked({"--nonsense"}), 2);
  const std::string example = BABELRING_SOURCE_DIR "/deploy/systemd/server.yaml";
  EXPECT_EQ(checked({"--options", example}), 0);
  Process server(arguments_for(data));
  EXPECT_EQ(checked({}), 0) << "beside a server that runs";
  EXPECT_EQ(server.end(SIGTERM), 0);
  EXPECT_EQ(checked({}), 0);
  std::filesystem::resize_file(data / "babelring.db", 0);
  EXPECT_EQ(checked({}), 1);
  write_file_atomically(profiles, "translators: 99\n");
  Process wrong(arguments_for(data, {"--check", "--options", profiles.string()}));
  EXPECT_EQ(WEXITSTATUS(wrong.end(0)), 2);
  EXPECT_TRUE(wrong.log().starts_with("server: " + profiles.string() + ": --translators: found 99")) << wrong.log();
}

TEST(ServerProgram, WarnsOfAnExpiredCertificate) {
  testing::TemporaryFolder folder;
  const testing::Certificate expired(folder.path(), -1);
  Process server(arguments_for(folder.path() / "data",
                               {"--tls-cert", expired.certificate.string(), "--tls-key", expired.key.string()}));
  EXPECT_TRUE(server.logged("the certificate of CN=localhost expired on ")) << server.log();
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST(ServerProgram, RefusesToBeOpenToOthersOrToShareItsData) {
  testing::TemporaryFolder folder;
  const std::string data = folder.path().string();
  const std::vector<std::vector<std::string>> refused = {
      {"--listen", "0.0.0.0:0", "--data", data},
      {"--listen", "0.0.0.0:0", "--data", data, "--without-tokens"},
      {"--listen", "127.0.0.1:0", "--data", data, "--tls-cert", "cert.pem"},
      {"--listen", "127.0.0.1:0", "--data", data, "--tls-cert", "absent.pem", "--tls-key", "absent.pem"},
      {"--listen", "127.0.0.1:0", "--data", data, "--allow-origin", "*"},
      {"--listen", "127.0.0.1:0", "--data", data, "--behind-proxy", "--open-metrics"},
      {"--listen", "127.0.0.1:0", "--data", data, "--allow-origin", "https://site.example/path"}};
  for (const auto& arguments : refused) {
    Process open(arguments);
    EXPECT_EQ(WEXITSTATUS(open.end(0)), 2) << arguments.back();
  }
  Process first({"--listen", "127.0.0.1:0", "--data", folder.path().string()});
  Process second({"--listen", "127.0.0.1:0", "--data", folder.path().string()});
  EXPECT_EQ(WEXITSTATUS(second.end(0)), 1);
  EXPECT_EQ(first.end(SIGINT), 0);
}

}  // namespace
}  // namespace babelring

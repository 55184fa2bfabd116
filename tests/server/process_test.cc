#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

#include "nmt/base/atomic_file.h"
#include "nmt/base/json.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

extern char** environ;

namespace babelring {
namespace {

using testing::batch_text;
using testing::Client;
using testing::records_path;
using testing::run_id;
using testing::step_record;

/// The server program as users run it.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    std::string program = BABELRING_BIN_DIR "/server";
    std::vector<char*> argv = {program.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    folder_ = arguments.at(3);
    std::array<int, 2> out{};
    if (pipe2(out.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    for (char c = 0; read(out[0], &c, 1) == 1 && c != '\n';) line_ += c;
    close(out[0]);
  }
  ~Process() {
    if (pid_ > 0) end(SIGKILL);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& line() const { return line_; }
  /// The administrator's, as the server wrote it down.
  std::string token() const {
    std::string text = read_file(folder_ / "admin.token");
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  std::uint16_t port() const { return static_cast<std::uint16_t>(std::stoi(line_.substr(line_.rfind(':') + 1))); }
  /// Wait status after the signal (0: none sent).
  int end(int signal) {
    int status = 0;
    if (signal != 0) kill(pid_, signal);
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  std::string line_;
  std::filesystem::path folder_;  // --data
};

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

TEST(ServerProgram, RefusesToBeOpenToOthersOrToShareItsData) {
  testing::TemporaryFolder folder;
  const std::string data = folder.path().string();
  const std::vector<std::vector<std::string>> refused = {
      {"--listen", "0.0.0.0:0", "--data", data},
      {"--listen", "0.0.0.0:0", "--data", data, "--without-tokens"},
      {"--listen", "127.0.0.1:0", "--data", data, "--tls-cert", "cert.pem"},
      {"--listen", "127.0.0.1:0", "--data", data, "--tls-cert", "absent.pem", "--tls-key", "absent.pem"},
      {"--listen", "127.0.0.1:0", "--data", data, "--allow-origin", "*"},
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

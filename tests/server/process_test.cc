#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/atomic_file.h"
#include "base/json.h"
#include "client/http_client.h"
#include "tests/server/certificate.h"
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
    posix_spawn_file_actions_adddup2(&actions, fileno(log_.get()), STDERR_FILENO);
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
  /// Everything on standard error so far.
  std::string log() const {
    std::string text(1 << 20, '\0');
    const ssize_t size = pread(fileno(log_.get()), text.data(), text.size(), 0);
    return text.substr(0, size < 0 ? 0 : static_cast<std::size_t>(size));
  }
  bool logged(const std::string& text) const {
    return soon([&] { return log().find(text) != std::string::npos; });
  }
  void send(int signal) const { kill(pid_, signal); }
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
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> log_{std::tmpfile(), std::fclose};
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

std::vector<std::string> arguments_for(const std::filesystem::path& data, std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"--listen", "127.0.0.1:0", "--data", data.string()};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(ServerProgram, GoesOnAfterSignalsThatDoNotAskForItsEnd) {
  testing::TemporaryFolder folder;
  Process server(arguments_for(folder.path()));
  Client client(server.port(), server.token());
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGPIPE, SIGIO, SIGPWR, SIGSTKFLT,
                           SIGXFSZ, SIGRTMIN, SIGRTMIN + 5, SIGRTMAX}) {
    server.send(signal);
    EXPECT_EQ(client.get("/api/v1/runs").status, 200) << signal;
  }
  EXPECT_TRUE(server.logged("SIGHUP: reloading"));
  EXPECT_EQ(server.end(SIGTERM), 0);
  EXPECT_EQ(read_file(folder.path() / "server.lock"), "clean\n");
  Process again(arguments_for(folder.path()));
  EXPECT_EQ(again.end(SIGQUIT), 0);
  EXPECT_EQ(read_file(folder.path() / "server.lock"), "clean\n");
}

TEST(ServerProgram, ReadsItsOptionsAndProfilesAgainAtSighup) {
  testing::TemporaryFolder folder;
  const auto options = folder.path() / "options.yaml", profiles = folder.path() / "profiles.yaml";
  write_file_atomically(options, "allow-host: [one.example]\nlog-level: info\nprofiles: " + profiles.string() + "\n");
  write_file_atomically(profiles, "small: {max_ranks: 2}\n");
  Process server(arguments_for(folder.path() / "data", {"--options", options.string()}));
  const auto status_for = [&](const std::string& host) {
    Client client(server.port(), "");
    client.send("GET /healthz HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    return client.receive().status;
  };
  const auto names = [&] {
    std::string joined;
    const auto answer = parse_json(Client(server.port(), server.token()).get("/api/v1/profiles").body).value();
    for (const auto& item : answer.at("items").as_array()) joined += std::string(item.at("name").as_string()) + " ";
    return joined;
  };
  EXPECT_EQ(status_for("one.example"), 200);
  EXPECT_EQ(names(), "mpirun-local small ");

  write_file_atomically(
      options, "allow-host: [two.example]\nlog-level: debug\nrequest-rate: 77\nprofiles: " + profiles.string() + "\n");
  write_file_atomically(profiles, "large: {max_ranks: 200}\n");
  server.send(SIGHUP);
  EXPECT_TRUE(server.logged("reload: profiles " + profiles.string() + ": new: large; removed: small")) << server.log();
  EXPECT_TRUE(server.logged("reload: options " + options.string() + ": log level debug; hosts 127.0.0.1, two.example"));
  EXPECT_TRUE(server.logged("reload: --request-rate: '77' needs a restart; still using ''"));
  EXPECT_EQ(status_for("one.example"), 421);
  EXPECT_EQ(status_for("two.example"), 200);
  EXPECT_EQ(names(), "large mpirun-local ");

  // What is wrong is left as it was; the other parts are read all the same.
  write_file_atomically(options, "allow-host: [three.example]\nlog-levle: info\n");
  write_file_atomically(profiles, "medium: {}\n");
  server.send(SIGHUP);
  EXPECT_TRUE(server.logged("reload: profiles " + profiles.string() + ": new: medium; removed: large")) << server.log();
  EXPECT_TRUE(server.logged("error: reload: " + options.string() + ":2:1: unknown key 'log-levle'")) << server.log();
  EXPECT_EQ(status_for("three.example"), 421);
  EXPECT_EQ(status_for("two.example"), 200);
  write_file_atomically(options, "allow-host: [four.example]\nprofiles: " + profiles.string() + "\n");
  write_file_atomically(profiles, "medium: {max_ranks: none}\n");
  server.send(SIGHUP);
  EXPECT_TRUE(server.logged("error: reload: " + profiles.string() + ":1:")) << server.log();
  EXPECT_EQ(status_for("four.example"), 200);
  EXPECT_EQ(names(), "medium mpirun-local ");
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST(ServerProgram, OpensItsAccessLogAnewAtSighup) {
  testing::TemporaryFolder folder;
  Process server(arguments_for(folder.path()));
  const auto log = folder.path() / "access.log", kept = folder.path() / "kept.log";
  Client nobody(server.port(), "");
  const auto has_line = [&](const std::filesystem::path& file, const std::string& target) {
    return soon([&] { return std::filesystem::exists(file) && read_file(file).find(target) != std::string::npos; });
  };
  EXPECT_EQ(nobody.get("/api/v1/runs?first").status, 401);
  EXPECT_TRUE(has_line(log, "?first"));
  std::filesystem::rename(log, kept);
  server.send(SIGHUP);
  EXPECT_TRUE(soon([&] { return std::filesystem::exists(log); }));
  EXPECT_TRUE(soon([&] {
    nobody.get("/api/v1/runs?second");  // repeats are bounded: one of them has a line
    return read_file(log).find("?second") != std::string::npos;
  }));
  EXPECT_EQ(read_file(kept).find("?second"), std::string::npos);
  EXPECT_EQ(server.end(SIGTERM), 0);
}

/// Which of the certificates the server shows.
bool shows(const Process& server, const testing::Certificate& certificate) {
  HttpClient client("https://localhost:" + std::to_string(server.port()), {.ca_file = certificate.certificate});
  return client.send({.target = "/healthz"}).ok();
}

TEST(ServerProgram, ReadsItsCertificateAgainAtSighup) {
  testing::TemporaryFolder folder;
  for (const char* name : {"in_use", "other"}) std::filesystem::create_directory(folder.path() / name);
  const testing::Certificate first(folder.path() / "in_use");
  Process server(arguments_for(folder.path() / "data", {"--tls-cert", first.certificate, "--tls-key", first.key}));
  const auto kept = folder.path() / "first.pem";
  std::filesystem::copy_file(first.certificate, kept);
  EXPECT_TRUE(shows(server, first));

  const testing::Certificate renewed(folder.path() / "in_use");  // over the first
  EXPECT_FALSE(shows(server, renewed)) << "until it is told";
  server.send(SIGHUP);
  EXPECT_TRUE(server.logged("reload: certificate " + first.certificate.string() + ": CN=localhost, valid until"));
  EXPECT_TRUE(shows(server, renewed));

  const testing::Certificate other(folder.path() / "other");
  std::filesystem::copy_file(other.key, first.key, std::filesystem::copy_options::overwrite_existing);
  server.send(SIGHUP);
  EXPECT_TRUE(server.logged("error: reload: --tls-key " + first.key.string() + ": not the key of ")) << server.log();
  EXPECT_TRUE(shows(server, renewed)) << "a broken pair leaves the one in use";
  EXPECT_EQ(server.end(SIGTERM), 0);
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

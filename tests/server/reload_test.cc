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
using testing::Client;
using testing::Process;

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
    client.send("GET /api/v1/version HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
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

  // A file with a fault keeps its old values; the other files are read nevertheless.
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

}  // namespace
}  // namespace babelring

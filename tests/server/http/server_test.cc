#include "server/http/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <spdlog/details/log_msg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <regex>

#include "base/files.h"
#include "base/json.h"
#include "base/secret.h"
#include "tests/server/client.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

extern char** environ;

namespace babelring {
namespace {

std::string line_of(http::LogFormat format, const std::string& text) {
  spdlog::memory_buf_t out;
  http::log_formatter(format)->clone()->format(
      spdlog::details::log_msg("", spdlog::level::warn, spdlog::string_view_t(text)), out);
  return {out.data(), out.size()};
}

TEST(ServerLog, WritesTimesWithTheirZone) {
  const std::regex form(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d warning: two\\x0alines of \[token\]\n)");
  const std::string line = line_of(http::LogFormat::text, "two\nlines of bbr_abc-_9");
  EXPECT_TRUE(std::regex_match(line, form)) << line;
}

TEST(ServerLog, WritesAnObjectALineAsJson) {
  const std::string line = line_of(http::LogFormat::json, "a \"quoted\" name,\n\xff of bbr_abc");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto object = parse_json(line.substr(0, line.size() - 1)).value();
  EXPECT_TRUE(object.at("time").as_string().ends_with("Z"));
  EXPECT_EQ(object.at("level"), "warning");
  EXPECT_EQ(object.at("text"), "a \"quoted\" name,\\x0a\\xff of [token]");
}

TEST(Secrets, AreHiddenInTexts) {
  EXPECT_EQ(redact("/runs?limit=5"), "/runs?limit=5");
  EXPECT_EQ(redact("/bbr_a/x?TOKEN=1&key=loss&password=a%20b;c=d"),
            "/[token]/x?TOKEN=[hidden]&key=loss&password=[hidden];c=d");
  EXPECT_EQ(redact("?access_token="), "?access_token=[hidden]");
  EXPECT_EQ(redact("tokens=3 token=4"), "tokens=3 token=4");
  EXPECT_EQ(redact("bbr_bbr_x"), "[token]");
}

/// The server program with both outputs in one file, as under a service manager.
class LoggedServer {
 public:
  LoggedServer(const std::filesystem::path& data, const std::filesystem::path& log,
               const std::vector<std::string>& more = {})
      : data_(data) {
    std::vector<std::string> arguments = {BABELRING_BIN_DIR "/server", "--listen", "127.0.0.1:0", "--data",
                                          data.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_TRUE(soon([&] { return std::filesystem::exists(data / "address"); }));
  }
  ~LoggedServer() { stop(); }
  LoggedServer(const LoggedServer&) = delete;
  LoggedServer& operator=(const LoggedServer&) = delete;
  std::uint16_t port() const {
    const std::string address = read_file(data_ / "address");
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  std::string token() const {
    const std::string text = read_file(data_ / "admin.token");
    return text.substr(0, text.find('\n'));
  }
  void stop() {
    if (pid_ > 0) kill(pid_, SIGTERM);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  std::filesystem::path data_;
  pid_t pid_ = -1;
};

TEST(ServerLog, HoldsNoTokenAndNamesTheFileThatDoes) {
  testing::TemporaryFolder folder;
  const auto data = folder.path() / "data", log = folder.path() / "log";
  LoggedServer server(data, log, {"--log-level", "trace", "--access-log", "all", "--access-log-file", "-"});
  const std::string admin = server.token();
  testing::Client client(server.port(), admin);
  EXPECT_EQ(client.get("/api/v1/tokens").status, 200);
  EXPECT_EQ(client.request("DELETE", "/api/v1/tokens/" + admin).status, 404);
  EXPECT_EQ(testing::Client(server.port(), "").get("/api/v1/runs?token=" + admin + "&x=" + admin).status, 401);
  const std::string audit = client.get("/api/v1/audit").body;
  EXPECT_EQ(audit.find("bbr_"), std::string::npos) << audit;
  server.stop();
  const std::string text = read_file(log);
  EXPECT_EQ(text.find("bbr_"), std::string::npos) << text;
  EXPECT_NE(text.find("a new administrator's token is in " + (data / "admin.token").string() + "\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("/api/v1/tokens/[token]"), std::string::npos) << text;
}

TEST(ServerLog, IsOneObjectALineWhereJsonIsWanted) {
  testing::TemporaryFolder folder;
  const auto data = folder.path() / "data", log = folder.path() / "log";
  LoggedServer server(data, log, {"--log-format", "json"});
  EXPECT_EQ(testing::Client(server.port(), "").get("/healthz").status, 200);
  EXPECT_EQ(testing::Client(server.port(), "").get("/api/v1/runs").status, 401);
  server.stop();
  std::istringstream text(read_file(log));
  std::string words;
  for (std::string line; std::getline(text, line);) {
    const auto object = parse_json(line);
    ASSERT_TRUE(object) << line;
    words += std::string(object->at("text").as_string()) + '\n';
  }
  EXPECT_NE(words.find("babelring server listening on http://127.0.0.1:"), std::string::npos) << words;
  EXPECT_NE(words.find("SIGTERM: ending"), std::string::npos) << words;
  const std::string access = read_file(data / "access.log");
  EXPECT_NE(access.find("\"status\":401"), std::string::npos) << access;
}

}  // namespace

}  // namespace babelring

#include "client/server_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/failure.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// An environment of its own, with a home folder.
class ServerAccessTest : public testing::Test {
 protected:
  ServerAccessTest() {
    fs::remove_all(home_);
    fs::create_directories(home_ / ".config" / "babelring");
    for (const char* name : {"BABELRING_SERVER", "BABELRING_TOKEN", "BABELRING_CA_FILE", "XDG_CONFIG_HOME"}) {
      unsetenv(name);
    }
    setenv("HOME", home_.c_str(), 1);
  }
  ~ServerAccessTest() override { fs::remove_all(home_); }
  fs::path write(const fs::path& name, const std::string& text) const {
    std::ofstream(home_ / name) << text;
    return home_ / name;
  }
  const fs::path home_ = testing::TempDir() + "server_access_test." + std::to_string(::getpid());
};

TEST_F(ServerAccessTest, OptionsPrecedeTheEnvironmentAndItPrecedesDefaults) {
  EXPECT_EQ(find_server("", {}).address, "http://127.0.0.1:8080");
  EXPECT_EQ(find_server("", {}).token, "");
  write(".config/babelring/token", "of-home\n");
  EXPECT_EQ(find_server("", {}).token, "of-home");
  setenv("BABELRING_TOKEN", "of-environment\n", 1);
  setenv("BABELRING_SERVER", "http://h:1", 1);
  EXPECT_EQ(find_server("", {}).token, "of-environment");
  EXPECT_EQ(find_server("", {}).address, "http://h:1");
  const fs::path named = write("named", "  of-file  \nsecond line\n");
  EXPECT_EQ(find_server("http://h:2", named).token, "of-file");
  EXPECT_EQ(find_server("http://h:2", named).address, "http://h:2");
}

TEST_F(ServerAccessTest, AFileWithoutATokenIsNamed) {
  EXPECT_THAT([&] { find_token(home_ / "absent"); }, ThrowsMessage<UsageFailure>(HasSubstr("absent: No such file")));
  for (const char* text : {"", "\n", "two words\n"}) {
    EXPECT_THAT([&] { find_token(write("named", text)); },
                ThrowsMessage<UsageFailure>(HasSubstr("named: expected one token on its first line")))
        << text;
  }
}

TEST(ServerAddress, ParsesValidAddresses) {
  EXPECT_EQ(parse_server_address("http://host:8080/under/").text(), "http://host:8080/under");
  EXPECT_EQ(parse_server_address("https://host").text(), "https://host");
  EXPECT_EQ(parse_server_address("https://host").port, "443");
  EXPECT_EQ(parse_server_address("http://host:80/x").authority(), "host") << "as proxies compare it";
  EXPECT_EQ(parse_server_address("http://[::1]").authority(), "[::1]");
  EXPECT_EQ(parse_server_address("http://host:443").authority(), "host:443");
  EXPECT_EQ(parse_server_address("http://[::1]:5").text(), "http://[::1]:5");
  EXPECT_EQ(parse_server_address("http://[::1]:5").host, "::1");
  for (const char* text : {"localhost:8080", "ftp://h:1", "http://", "http://u@h:1", "http://h:1/?q", ""}) {
    EXPECT_THAT([&] { parse_server_address(text); },
                ThrowsMessage<UsageFailure>(HasSubstr("expected http://host:port or https://host:port, found")));
  }
}

}  // namespace
}  // namespace babelring

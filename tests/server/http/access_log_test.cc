#include "server/http/access_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <set>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using http::AccessEntry;
using http::AccessLog;
using http::Scope;
using testing::Client;

std::vector<json::object> lines_of(const std::filesystem::path& file) {
  std::vector<json::object> lines;
  if (!std::filesystem::exists(file)) return lines;
  const std::string text = read_file(file);
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    lines.push_back(parse_json(text.substr(at, end - at)).value().as_object());
  }
  return lines;
}

/// A server with an access log in a file.
class AccessLogTest : public ::testing::Test {
 protected:
  explicit AccessLogTest(AccessLog::Which which = AccessLog::Which::refused) : log(options(which)) {}
  AccessLog::Options options(AccessLog::Which which) const {
    AccessLog::Options chosen;
    chosen.which = which;
    chosen.file = file;
    chosen.slow = std::chrono::milliseconds(0);  // however busy the machine is
    return chosen;
  }
  http::AdmissionOptions admission() {
    http::AdmissionOptions options;
    options.access_log = &log;
    return options;
  }
  /// Waits until that many lines are there.
  std::vector<json::object> lines(std::size_t count) {
    std::vector<json::object> found;
    soon([&] { return (found = lines_of(file)).size() >= count; });
    EXPECT_EQ(found.size(), count);
    return found;
  }
  testing::TemporaryFolder folder;
  std::filesystem::path file = folder.path() / "access.log";
  AccessLog log;
  testing::TestServer server{{}, {}, admission()};
};

TEST_F(AccessLogTest, HasALineForEachRefusedRequestAndNoneForOthers) {
  const std::string reader = server.token(Scope::read), guessed = "bbr_" + std::string(43, 'x');
  Client(server.port(), reader).get("/api/v1/runs");
  Client(server.port(), reader).get("/api/v1/runs/" + testing::run_id);  // 404: an ordinary answer
  Client(server.port(), guessed).get("/api/v1/tokens/self", "X-Request-Id: r-1\r\n");
  Client(server.port(), reader).get("/api/v1/tokens?limit=2");
  Client(server.port(), "").get("/wp-login.php?token=hunter2&x=" + guessed + "&y=%0A");
  Client malformed(server.port());
  malformed.send("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(malformed.receive().status, 400);
  std::map<std::int64_t, json::object> found;  // a line may be written a moment after its answer was read
  for (json::object& line : lines(4)) found[line.at("status").as_int64()] = std::move(line);
  ASSERT_EQ(found.size(), 4u);
  const json::object &guess = found.at(401), &forbidden = found.at(403), &probe = found.at(404),
                     &broken = found.at(400);
  EXPECT_EQ(guess.at("event"), "request");
  EXPECT_EQ(guess.at("request"), "r-1");
  EXPECT_EQ(guess.at("address"), "127.0.0.1");
  EXPECT_TRUE(guess.at("token").is_null());
  EXPECT_EQ(guess.at("method"), "GET");
  EXPECT_EQ(guess.at("route"), "/api/v1/tokens/self");
  EXPECT_EQ(guess.at("target"), "/api/v1/tokens/self");
  EXPECT_GT(guess.at("bytes").to_number<int>(), 100);
  for (const char* name : {"wait_ms", "work_ms", "send_ms"}) EXPECT_GE(guess.at(name).to_number<double>(), 0) << name;
  EXPECT_TRUE(guess.at("time").as_string().ends_with("Z"));
  EXPECT_EQ(forbidden.at("name"), "test");
  EXPECT_TRUE(forbidden.at("token").as_string().starts_with("t_"));
  EXPECT_EQ(forbidden.at("target"), "/api/v1/tokens?limit=2");
  EXPECT_TRUE(probe.at("route").is_null());
  EXPECT_EQ(probe.at("target"), "/wp-login.php?token=[hidden]&x=[token]&y=%0A");
  EXPECT_TRUE(broken.at("method").is_null());
  EXPECT_EQ(read_file(file).find("bbr_"), std::string::npos);
  struct stat status{};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

class FullAccessLogTest : public AccessLogTest {
 protected:
  FullAccessLogTest() : AccessLogTest(AccessLog::Which::all) {}
};

TEST_F(FullAccessLogTest, HasALineForEachRequestWhereAllAreWanted) {
  Client client(server.port());
  client.get("/healthz");
  client.get("/api/v1/runs?limit=1");
  client.post("/api/v1/tokens", R"({"name":"x","scope":"read"})");
  const auto found = lines(3);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].at("route"), "/healthz");
  EXPECT_EQ(found[1].at("name"), "test admin");
  EXPECT_EQ(found[1].at("status"), 200);
  EXPECT_GT(found[1].at("work_ms").to_number<double>(), 0);
  EXPECT_EQ(found[2].at("method"), "POST");
}

TEST(AccessLog, WantsSlowRequests) {
  testing::TemporaryFolder folder;
  AccessLog::Options options;
  options.file = folder.path() / "a";
  const AccessLog log(options);
  EXPECT_TRUE(log.wants(200, true, 1000));
  EXPECT_FALSE(log.wants(200, true, 999));
  EXPECT_FALSE(log.wants(404, true, 1));
  EXPECT_TRUE(log.wants(404, false, 1));
  for (const int status : {401, 403, 421, 429, 500, 503, 507}) EXPECT_TRUE(log.wants(status, true, 0)) << status;
  options.which = AccessLog::Which::none;
  options.file = folder.path() / "b";
  const AccessLog silent(options);
  EXPECT_FALSE(silent.wants(503, true, 1e6));
  EXPECT_FALSE(std::filesystem::exists(options.file));
}

AccessEntry entry_of(int status, std::string_view address, std::string_view token = "") {
  AccessEntry entry;
  entry.address = address;
  entry.token = token;
  entry.status = status;
  return entry;
}

TEST(AccessLog, IsNotFloodedAndCountsWhatItLeavesOut) {
  testing::TemporaryFolder folder;
  AccessLog::Options options;
  options.file = folder.path() / "access.log";
  constexpr int requests = 20'000;
  std::int64_t seconds = 0;
  {
    AccessLog log(options);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < requests; ++i)
      log.write(entry_of(401, i % 2 == 0 ? "10.0.0.1" : "10.0.0." + std::to_string(i)));
    log.write(entry_of(403, "10.0.0.9", "t_other"));  // others' lines are not suppressed by strangers'
    seconds = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count() + 2;
    EXPECT_GT(log.suppressed(), 0u);
  }
  std::int64_t written = 0, suppressed = 0, others = 0, of_one = 0;
  for (const auto& line : lines_of(options.file)) {
    if (line.at("event") == "suppressed") {
      suppressed += line.at("lines").to_number<std::int64_t>();
      EXPECT_EQ(line.at("by_status").at("401"), line.at("lines"));
      continue;
    }
    ++written;
    if (line.at("address") == "10.0.0.1") ++of_one;
    if (line.at("status") == 403) ++others;
  }
  EXPECT_EQ(written + suppressed, requests + 1);
  EXPECT_LE(written, 1 + options.lines_a_second * seconds);
  EXPECT_LE(of_one, options.lines_a_source * seconds);
  EXPECT_EQ(others, 1);
}

TEST(AccessLog, KeepsFilesWithinTheirBound) {
  testing::TemporaryFolder folder;
  AccessLog::Options options;
  options.which = AccessLog::Which::all;
  options.file = folder.path() / "access.log";
  options.max_file_bytes = 4000;
  options.old_files = 2;
  {
    AccessLog log(options);
    for (int i = 0; i < 200; ++i) {
      log.write(entry_of(200, "10.0.0.1"));
      if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) names.insert(entry.path().filename());
  EXPECT_TRUE(names.contains("access.log.1"));
  EXPECT_LE(names.size(), 3u);
}

TEST(AccessLog, GoesOnInANewFileWhenItsWasRenamed) {
  testing::TemporaryFolder folder;
  AccessLog::Options options;
  options.which = AccessLog::Which::all;
  options.file = folder.path() / "access.log";
  AccessLog log(options);
  log.write(entry_of(200, "first"));
  ASSERT_TRUE(soon([&] { return lines_of(options.file).size() == 1; }));
  std::filesystem::rename(options.file, folder.path() / "old");
  log.reopen();
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(options.file); }));
  log.write(entry_of(200, "second"));
  ASSERT_TRUE(soon([&] { return lines_of(options.file).size() == 1; }));
  EXPECT_EQ(lines_of(options.file)[0].at("address"), "second");
  EXPECT_EQ(lines_of(folder.path() / "old").size(), 1u);
}

TEST(AccessLog, SaysWhatItCannotOpen) {
  AccessLog::Options options;
  options.file = "/dev/null/access.log";
  try {
    const AccessLog log(options);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(std::string(failure.what()), "access log /dev/null/access.log: Not a directory");
  }
}

}  // namespace
}  // namespace babelring

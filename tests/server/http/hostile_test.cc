#include <gtest/gtest.h>

#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "base/digest.h"
#include "base/json.h"
#include "server/http/connections.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::Client;
using testing::records_path;

std::string repeated(const std::string& part, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

TEST(HostileJson, IsRefusedWhereverABodyIsParsed) {
  testing::TestServer server;
  const std::vector<std::pair<const char*, std::string>> bodies = {
      {"deep arrays", std::string(1'000'000, '[')},
      {"deep objects", repeated(R"({"a":)", 500'000)},
      {"33 levels", R"({"name":)" + std::string(33, '[') + std::string(33, ']') + "}"},
      {"digits", R"({"name":)" + std::string(4'000'000, '9') + "}"},
      {"fraction digits", R"({"name":0.)" + std::string(4'000'000, '9') + "x}"},
      {"many values", "[" + repeated("1,", 1'500'000) + "1]"},
      {"long text", R"({"name":")" + std::string(1'100'000, 'a') + "\"}"},
      {"long name", "{\"" + std::string(1'100'000, 'a') + "\":1}"},
      {"a member twice", R"({"name":"a","name":"a","scope":"read"})"},
      {"escaped twice", R"({"name":"a","n\u0061me":"a","scope":"read"})"},
      {"lone surrogate", R"({"name":"\ud800","scope":"read"})"},
      {"invalid UTF-8", "{\"name\":\"\xc3\x28\",\"scope\":\"read\"}"},
      {"too large a number", R"({"name":1e400})"},
      {"too small a number", R"({"name":-1e400})"},
      {"NaN", R"({"name":NaN})"},
      {"Infinity", R"({"name":Infinity})"},
      {"minus Infinity", R"({"name":-Infinity})"},
      {"comment", R"({"name":"a"/**/})"},
      {"trailing comma", R"({"name":"a",})"},
      {"two values", R"({} {})"},
      {"byte order mark", "\xef\xbb\xbf{}"},
      {"NUL", std::string("{\0}", 3)},
  };
  for (const auto& [what, body] : bodies) {
    SCOPED_TRACE(what);
    const auto ingest = Client(server.port()).post(records_path(), body);
    EXPECT_EQ(ingest.status, 400);
    EXPECT_EQ(parse_json(ingest.body)->at("code"), "bad_json");
    const auto small = Client(server.port()).post("/api/v1/tokens", body);
    EXPECT_EQ(small.status, body.size() > 4096 ? 413 : 400);
  }
  const auto members = [](int count) {
    std::string many = "{";
    for (int i = 0; i < count; ++i) many += '"' + std::to_string(i) + "\":1,";
    return many + "\"x\":1}";
  };
  EXPECT_EQ(Client(server.port()).post(records_path(), members(90'000)).status, 422);
  EXPECT_EQ(Client(server.port()).post(records_path(), members(110'000)).status, 400);
  EXPECT_EQ(Client(server.port()).get("/api/v1/runs/" + testing::run_id).status, 404);
}

class HostilePath : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = server.folder() / "run/update-00000001";
    std::filesystem::create_directories(folder);
    std::ofstream(server.folder() / "secret") << "TOPSECRET";
    std::ofstream(folder / "good") << "good";
    std::ofstream(folder / "state.json") << "{}";  // makes it a checkpoint
    std::filesystem::create_symlink(server.folder() / "secret", folder / "link");
    std::filesystem::create_directory_symlink(server.folder(), folder / "up");
    CheckpointRecord record;
    record.update = 1;
    record.name = "update-00000001";
    record.folder = folder;
    // A manifest that lies: these names are found in it, and still must not be followed.
    for (const std::string name : {"link", "up/secret", "../../secret", "/proc/self/environ", "/etc/passwd",
                                   "../update-00000001/good/../../../secret"}) {
      record.files.push_back({name, 9, sha256_hex("TOPSECRET")});
    }
    record.files.push_back({"good", 4, sha256_hex("good")});
    const auto stored = testing::put(server.store(), {testing::record_of(record, 1)});
    files = "/api/v1/checkpoints/" + stored.fresh.at(0).id + "/files/";
  }
  void refused(const testing::Answer& answer, const std::string& what) {
    const std::set<int> refusals = {400, 404, 409, 410};
    EXPECT_TRUE(refusals.contains(answer.status)) << what << ": " << answer.status;
    EXPECT_EQ(answer.body.find("TOPSECRET"), std::string::npos) << what;
    EXPECT_EQ(answer.body.find("root:"), std::string::npos) << what;
  }
  testing::TestServer server;
  std::string files;
};

TEST_F(HostilePath, ReachesNothingOutsideACheckpoint) {
  EXPECT_EQ(Client(server.port()).get(files + "good").body, "good");
  const std::vector<std::string> names = {"link",
                                          "up%2Fsecret",
                                          "..%2f..%2fsecret",
                                          "%2e%2e%2f%2e%2e%2fsecret",
                                          "../../secret",
                                          "%2e%2e/%2e%2e/secret",
                                          "%2Fproc%2Fself%2Fenviron",
                                          "//proc/self/environ",
                                          "%2Fetc%2Fpasswd",
                                          "good%00",
                                          "good%00.txt",
                                          "%00",
                                          "good%2F",
                                          "good/",
                                          "./good",
                                          ".%2Fgood",
                                          "..",
                                          "%2e%2e",
                                          "%2e",
                                          "..%5c..%5csecret",
                                          "%c0%ae%c0%ae/secret",
                                          "..%252f..%252fsecret",
                                          "%2e%2e%2fupdate-00000001%2fgood%2f%2e%2e%2f%2e%2e%2f%2e%2e%2fsecret",
                                          std::string(3900, 'a'),
                                          repeated("%2e%2e%2f", 400) + "etc%2fpasswd",
                                          "absent",
                                          "?name=good",
                                          "%"};
  for (const std::string& name : names) refused(Client(server.port()).get(files + name), name);
  Client fragment(server.port());
  fragment.send("GET " + files + "good#/../../../secret HTTP/1.1\r\nHost: localhost\r\n" + testing::authorization() +
                "\r\n");
  refused(fragment.receive(), "fragment");
}

TEST_F(HostilePath, ReachesNothingOutsideThePage) {
  for (const char* target :
       {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/assets/..%2f..%2fetc/passwd", "/etc/passwd",
        "/admin.token", "/assets/%2e%2e/admin.token"}) {
    refused(Client(server.port(), "").get(target), target);
  }
}

TEST(HttpLimits, ABodyThatTricklesIsGivenUpEarly) {
  http::Limits limits;
  limits.body = std::chrono::hours(1);
  limits.body_grace = std::chrono::milliseconds(200);
  testing::TestServer server(limits);
  Client client(server.port());
  const auto begin = std::chrono::steady_clock::now();
  // 500 bytes keep it alive for half a second more, no longer.
  client.send("POST " + records_path() + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
              testing::authorization() + "Content-Length: 100000\r\n\r\n" + std::string(500, ' '));
  EXPECT_EQ(client.receive().status, 408);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(650));
}

TEST(HttpLimits, AConnectionEndsAfterItsRequests) {
  http::Limits limits;
  limits.requests_a_connection = 3;
  testing::TestServer server(limits);
  Client client(server.port());
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(client.get("/api/v1/runs").headers.contains("connection"));
  EXPECT_EQ(client.get("/api/v1/runs").headers.at("connection"), "close");
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(http::Limits().requests_a_connection, 10'000u);
}

TEST(HttpLimits, TheWholeHeadHasOneDeadline) {
  http::Limits limits;
  limits.header = std::chrono::milliseconds(400);
  testing::TestServer server(limits);
  Client client(server.port());
  client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ");
  std::atomic<bool> answered = false;
  std::thread dripping([&] {  // each byte comes soon after the one before
    for (; !answered; std::this_thread::sleep_for(std::chrono::milliseconds(50))) client.send("y");
  });
  EXPECT_EQ(client.receive().status, 408);
  answered = true;
  dripping.join();
}

/// An address of this machine beyond loopback, or nothing.
std::string outer_address() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  std::string found;
  for (const ifaddrs* entry = list; entry != nullptr && found.empty(); entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, NI_MAXHOST> name{};
    if (getnameinfo(entry->ifa_addr, sizeof(sockaddr_in), name.data(), name.size(), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    if (!http::is_loopback(name.data())) found = name.data();
  }
  freeifaddrs(list);
  return found;
}

TEST(HttpLimits, OneAddressHasSoManyConnections) {
  const std::string address = outer_address();
  if (address.empty()) GTEST_SKIP() << "this machine has no address beyond loopback";
  http::Server::Options options;
  options.address = address;
  options.limits.connections_an_address = 3;
  http::Server server(options);
  static constexpr std::array<http::PageFile, 0> no_page = {};
  http::Router router;
  router.add("GET", "/hello", http::Scope::none, [](const http::Request&) { return http::Response(); });
  server.start([&](http::Dispatcher::Executor executor) {
    return http::Dispatcher(router, http::StaticFiles(no_page, {}), {}, std::move(executor));
  });
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(server.port(), "", address));
    EXPECT_EQ(clients.back()->get("/hello").status, 200);
  }
  EXPECT_EQ(Client(server.port(), "", address).get("/hello").status, 503);
  EXPECT_TRUE(Client(server.port(), "", address).closed()) << "if it asks nothing";
  clients.pop_back();
  EXPECT_TRUE(soon([&] { return Client(server.port(), "", address).get("/hello").status == 200; }))
      << "a connection that ended is still counted";
}

}  // namespace
}  // namespace babelring

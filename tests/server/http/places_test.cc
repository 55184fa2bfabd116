#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/http/connections.h"
#include "server/http/server.h"
#include "server/http/static_files.h"
#include "tests/server/client.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using http::Scope;
using testing::Client;

/// Each token is its own name; "ingest…" may report, any other may read.
class TokensByName : public http::Authenticator {
 public:
  std::shared_ptr<const http::Caller> identify(std::string_view secret) override {
    if (secret.starts_with("unknown")) return nullptr;
    const Scope scope = secret.starts_with("ingest") ? Scope::ingest : Scope::read;
    return std::make_shared<http::Caller>(http::Caller{std::string(secret), std::string(secret), scope, ""});
  }
  bool holds(const http::Caller&) override { return true; }
};

/// A server with 24 ordinary places and a reserve of 8.
class PlacesTest : public ::testing::Test {
 protected:
  PlacesTest() {
    http::Router router;
    http::Route alive{.method = "GET", .path = "/alive", .scope = Scope::none, .on_io_thread = true};
    alive.handler = [](const std::shared_ptr<const http::Request>&, const http::Reply& reply) {
      reply(http::text_response(200, "text/plain", "well"));
    };
    router.add(std::move(alive));
    http::Route ready = http::returning("GET", "/ready", Scope::none, hello);
    ready.vital = true;
    router.add(std::move(ready));
    router.add("GET", "/hello", Scope::none, hello);
    http::Route report = http::returning("POST", "/report", Scope::ingest, hello);
    report.max_body_bytes = 100'000;
    router.add(std::move(report));
    http::Route wait{.method = "GET", .path = "/wait", .scope = Scope::none};
    wait.handler = [this](const std::shared_ptr<const http::Request>&, http::Reply reply) {
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(reply));
    };
    router.add(std::move(wait));
    http::Server::Options options;
    options.limits.connections = 32;
    server = std::make_unique<http::Server>(options);
    http::AdmissionOptions admission;
    admission.authenticator = &tokens_;
    server->start([&](http::Dispatcher::Executor executor) {
      return http::Dispatcher(router, http::StaticFiles({}, {}), admission, std::move(executor));
    });
  }

  void TearDown() override {
    let_go();
    server.reset();
  }

  static http::Response hello(const http::Request&) { return http::text_response(200, "text/plain", "hello"); }

  /// Takes `count` places with requests that are being served.
  void hold_places(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      clients_.push_back(std::make_unique<Client>(server->port(), ""));
      clients_.back()->send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    EXPECT_TRUE(soon([&] {
      const std::lock_guard lock(mutex_);
      return held_.size() == clients_.size();
    }));
  }
  void let_go() {
    {
      const std::lock_guard lock(mutex_);
      for (const http::Reply& reply : held_) reply(http::Response());
      held_.clear();
    }
    clients_.clear();
  }

  int status_of(const std::string& method, const std::string& path, const std::string& token = "") {
    return Client(server->port(), token).request(method, path, method == "POST" ? "{}" : "").status;
  }

  std::unique_ptr<http::Server> server;

 private:
  TokensByName tokens_;
  std::mutex mutex_;
  std::vector<http::Reply> held_;
  std::vector<std::unique_ptr<Client>> clients_;
};

TEST_F(PlacesTest, AFloodAfterARefusalIsCutOff) {
  const auto head = [](const std::string& path, const std::string& token) {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
           (token.empty() ? "" : testing::authorization(token)) + "Content-Length: 900000000\r\n\r\n";
  };
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<Client>(server->port()));
    Client& client = *clients.back();
    client.send(i % 3 == 0 ? head("/report", "ingest") : i % 3 == 1 ? head("/report", "") : head("/nothing", "ingest"));
    EXPECT_EQ(client.receive().status, i % 3 == 0 ? 413 : i % 3 == 1 ? 401 : 404);
  }
  std::atomic<bool> enough = false;
  std::thread flood([&] {
    const std::string block(std::size_t{64} << 10, 'x');
    while (!enough) {
      for (const auto& client : clients) client->send_some(block);
    }
  });
  EXPECT_TRUE(soon([&] { return server->connections() == 0; })) << "while they are still sending";
  enough = true;
  flood.join();
}

TEST_F(PlacesTest, TakesFewOfTheBytesThatFollowARefusal) {
  Client client(server->port(), "");
  client.send("POST /report HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000000\r\n\r\n");
  const std::string block(std::size_t{64} << 10, 'x');
  std::size_t sent = 0;
  while (const auto more = client.send_some(block)) sent += *more;
  EXPECT_LT(sent, std::size_t{100} << 20);
}

TEST_F(PlacesTest, TheReserveAnswersHealthChecksAndReports) {
  hold_places(24);
  for (int round = 0; round < 3; ++round) {
    Client health(server->port(), "");
    const auto answer = health.get("/alive");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("connection"), "close");
    EXPECT_TRUE(health.closed());
    EXPECT_EQ(status_of("GET", "/ready"), 200);
    EXPECT_EQ(status_of("POST", "/report", "ingest"), 200);
    EXPECT_EQ(status_of("POST", "/report", "unknown"), 401);
    EXPECT_EQ(status_of("POST", "/report", "read"), 403);
    Client other(server->port(), "read");
    const auto refused = other.get("/hello");
    EXPECT_EQ(refused.status, 503);
    EXPECT_TRUE(refused.headers.contains("retry-after"));
    EXPECT_TRUE(other.closed());
  }
  let_go();
  EXPECT_TRUE(soon([&] { return status_of("GET", "/hello") == 200; }));
}

TEST_F(PlacesTest, TheReserveCannotBeHeldBySilence) {
  hold_places(24);
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 40; ++i) {
    silent.push_back(std::make_unique<Client>(server->port(), ""));
    if (i % 2 == 0) silent.back()->send("GET /hel");
  }
  EXPECT_EQ(status_of("GET", "/alive"), 200);
  EXPECT_EQ(status_of("POST", "/report", "ingest"), 200);
  EXPECT_TRUE(soon([&] { return server->connections() <= 32; }));
}

TEST_F(PlacesTest, OneTokenCannotHoldTheReserve) {
  hold_places(24);
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 2; ++i) {  // a quarter
    slow.push_back(std::make_unique<Client>(server->port(), "ingest greedy"));
    slow.back()->send("POST /report HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
                      testing::authorization("ingest greedy") +
                      "Expect: 100-continue\r\nContent-Length: 90000\r\n\r\n");
    EXPECT_EQ(slow.back()->receive().status, 100);
  }
  // It may fail to find them still there on a stalled machine: their bodies are waited for five seconds only.
  const int third = status_of("POST", "/report", "ingest greedy");
  EXPECT_TRUE(third == 503 || slow.front()->receive().status == 408) << third;
  EXPECT_EQ(status_of("POST", "/report", "ingest other"), 200);
}

TEST_F(PlacesTest, IdleConnectionsGiveTheirPlacesToNewOnes) {
  Client reporter(server->port(), "ingest");
  EXPECT_EQ(reporter.post("/report", "{}").status, 200);
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 23; ++i) {
    idle.push_back(std::make_unique<Client>(server->port(), ""));
    EXPECT_EQ(idle.back()->get("/hello").status, 200);
  }
  Client late(server->port(), "");
  const auto answer = late.get("/hello");
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.headers.contains("connection")) << "an ordinary place";
  EXPECT_TRUE(soon([&] { return server->connections() == 24; })) << "one was ended";
  EXPECT_EQ(reporter.post("/report", "{}").status, 200) << "is idle longest, but will report again";
}

/// A connection without a socket.
class FakeConnection : public http::Connection {
 public:
  explicit FakeConnection(http::Place place) : Connection("127.0.0.1", place) {}
  void finish() override {}
  void abort() override { aborted = true; }
  using Connection::activity;

  bool aborted = false;
};

TEST(Connections, EndsTheConnectionThatIsIdleLongest) {
  using Phase = http::Standing::Phase;
  http::Connections connections({.ordinary = 4, .reserve = 2, .address = 0});
  std::vector<std::shared_ptr<FakeConnection>> fakes;
  for (int i = 0; i < 4; ++i) {
    fakes.push_back(std::make_shared<FakeConnection>(connections.find_place("127.0.0.1", false)));
    ASSERT_EQ(fakes.back()->place(), http::Place::ordinary);
    connections.add(fakes.back());
  }
  fakes[0]->activity().set_reporter();
  for (const int i : {0, 2, 3}) {  // 1 is being served
    fakes[static_cast<std::size_t>(i)]->activity().enter(Phase::idle);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  fakes[1]->activity().enter(Phase::working);
  EXPECT_EQ(connections.find_place("127.0.0.1", false), http::Place::ordinary);
  EXPECT_FALSE(fakes[0]->aborted) << "a reporter";
  EXPECT_FALSE(fakes[1]->aborted) << "is being served";
  EXPECT_TRUE(fakes[2]->aborted);
  EXPECT_FALSE(fakes[3]->aborted) << "became idle later";
  for (const auto& fake : fakes) connections.remove(fake.get());
}

TEST(Places, KeepsAnEighthInReserve) {
  EXPECT_EQ(http::Places::of(12'000, 0).reserve, 512U);
  EXPECT_EQ(http::Places::of(12'000, 0).ordinary, 11'488U);
  EXPECT_EQ(http::Places::of(344, 0).reserve, 43U);
  EXPECT_EQ(http::Places::of(344, 0).ordinary, 301U);
  EXPECT_EQ(http::Places::of(4, 0).reserve, 2U);
  EXPECT_EQ(http::Places::of(344, 256).reserve_of_address(), 32U);
}

}  // namespace
}  // namespace babelring

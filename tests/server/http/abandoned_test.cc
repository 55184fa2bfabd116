#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "server/http/server.h"
#include "server/http/static_files.h"
#include "tests/server/client.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::Client;

/// A server whose route /wait keeps its requests until the test answers them.
class AbandonedTest : public ::testing::Test {
 protected:
  struct Held {
    std::shared_ptr<const http::Request> request;
    http::Reply reply;
  };

  void start(const http::Limits& limits = {}) {
    http::Route wait{.method = "GET", .path = "/wait", .scope = http::Scope::none};
    wait.handler = [this](std::shared_ptr<const http::Request> request, http::Reply reply) {
      const std::lock_guard lock(mutex_);
      held_.push_back({std::move(request), std::move(reply)});
    };
    http::Router router;
    router.add(std::move(wait));
    router.add(odd("/lost", [](const http::Reply&) {}));
    router.add(odd("/twice", [](const http::Reply& reply) {
      reply(http::text_response(200, "text/plain", "first"));
      reply(http::text_response(200, "text/plain", "second"));
      throw std::runtime_error("after the response");
    }));
    http::Server::Options options;
    options.limits = limits;
    server = std::make_unique<http::Server>(options);
    server->start([&](http::Dispatcher::Executor executor) {
      return http::Dispatcher(router, http::StaticFiles({}, {}), {}, std::move(executor));
    });
  }

  void TearDown() override {
    server.reset();
    held_.clear();
  }

  static http::Route odd(const std::string& path, std::function<void(const http::Reply&)> act) {
    http::Route route{.method = "GET", .path = path, .scope = http::Scope::none};
    route.handler = [act = std::move(act)](const std::shared_ptr<const http::Request>&, const http::Reply& reply) {
      act(reply);
    };
    return route;
  }

  static std::string asking(const std::string& version = "HTTP/1.1") {
    return "GET /wait " + version + "\r\nHost: localhost\r\n\r\n";
  }

  /// The next request that reached /wait.
  Held next() {
    EXPECT_TRUE(soon([&] {
      const std::lock_guard lock(mutex_);
      return !held_.empty();
    }));
    const std::lock_guard lock(mutex_);
    Held first = std::move(held_.front());
    held_.pop_front();
    return first;
  }

  std::unique_ptr<http::Server> server;

 private:
  std::mutex mutex_;
  std::deque<Held> held_;
};

TEST_F(AbandonedTest, AClosedConnectionIsNoticedAndGivesItsPlaceBack) {
  start();
  for (const bool more : {false, true}) {  // also behind a request that was sent ahead and not yet read
    SCOPED_TRACE(more);
    auto client = std::make_unique<Client>(server->port());
    client->send(more ? asking() + asking() : asking());
    const Held held = next();
    EXPECT_FALSE(held.request->abandoned());
    client.reset();
    EXPECT_TRUE(soon([&] { return held.request->abandoned(); }));
    EXPECT_TRUE(soon([&] { return server->connections() == 0; })) << "although the handler still works";
    held.reply(http::Response());  // goes nowhere
  }
}

TEST_F(AbandonedTest, AResetIsNoticed) {
  start();
  Client client(server->port());
  client.send(asking());
  const Held held = next();
  client.reset();
  EXPECT_TRUE(soon([&] { return held.request->abandoned(); }));
}

TEST_F(AbandonedTest, AClientThatSendsNothingMoreStillGetsItsAnswer) {
  start();
  Client client(server->port());
  client.send(asking());
  const Held held = next();
  client.finish_sending();
  EXPECT_EQ(client.receive().status, 102) << "by which the server finds out whether somebody listens";
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // several looks
  EXPECT_FALSE(held.request->abandoned());
  held.reply(http::text_response(200, "text/plain", "late"));
  EXPECT_EQ(client.receive().body, "late");
}

TEST_F(AbandonedTest, Http10KnowsNoInterimResponse) {
  start();
  Client client(server->port());
  client.send(asking("HTTP/1.0"));
  const Held held = next();
  client.finish_sending();
  EXPECT_TRUE(soon([&] { return held.request->abandoned(); }));
  EXPECT_EQ(client.receive().status, 0);
}

TEST_F(AbandonedTest, AnAnswerHasAnEnd) {
  http::Limits limits;
  limits.answer = std::chrono::milliseconds(200);
  start(limits);
  Client client(server->port());
  client.send(asking());
  const Held held = next();
  const auto late = client.receive();
  EXPECT_EQ(late.status, 503);
  EXPECT_TRUE(late.headers.contains("retry-after"));
  EXPECT_TRUE(held.request->abandoned());
  held.reply(http::text_response(200, "text/plain", "too late"));
  client.send(asking());
  next().reply(http::text_response(200, "text/plain", "of the second"));
  EXPECT_EQ(client.receive().body, "of the second");
}

TEST_F(AbandonedTest, AnAnswerMayComeAfterTheServerHasEnded) {
  http::Limits limits;
  limits.drain = std::chrono::milliseconds(100);
  start(limits);
  Client client(server->port());
  client.send(asking());
  const Held held = next();
  server.reset();
  EXPECT_TRUE(held.request->abandoned());
  held.reply(http::Response());
  EXPECT_TRUE(client.closed());
}

TEST_F(AbandonedTest, AReplyCountsOnceAndCannotGetLost) {
  start();
  Client client(server->port());
  EXPECT_EQ(client.get("/lost").status, 500);
  EXPECT_EQ(client.get("/twice").body, "first");
  EXPECT_EQ(client.get("/lost").status, 500) << "the connection has no answer too many";
  client.send(asking());
  {
    const Held dropped = next();
  }
  EXPECT_EQ(client.receive().status, 500);
}

TEST(Reply, DeliversOnce) {
  int delivered = 0, status = 0;
  const auto deliver = [&](const http::Response& response) {
    ++delivered;
    status = response.status;
    if (status == 418) throw std::runtime_error("could not be delivered");
  };
  {
    const http::Reply reply = http::Reply::required(deliver, [] { return http::text_response(500, "text/plain", ""); });
    const http::Reply copy = reply;
    EXPECT_THROW(copy(http::text_response(418, "text/plain", "")), std::runtime_error);
    reply(http::text_response(204, "text/plain", ""));
    copy(http::text_response(200, "text/plain", ""));
  }
  EXPECT_EQ(delivered, 2);
  EXPECT_EQ(status, 204);
  {
    const http::Reply lost = http::Reply::required(deliver, [] { return http::text_response(500, "text/plain", ""); });
  }
  EXPECT_EQ(status, 500);
}

}  // namespace
}  // namespace babelring

#include <gtest/gtest.h>

#include <array>

#include "base/clock.h"
#include "server/http/server.h"
#include "server/http/static_files.h"
#include "tests/server/client.h"

namespace babelring {
namespace {

using testing::Client;

/// A server with one route, /hello.
class Greeter {
 public:
  Greeter() : server_({.limits = {.drain = std::chrono::seconds(100)}}) {
    static constexpr std::array<http::PageFile, 0> no_page = {};
    http::Router router;
    router.add("GET", "/hello", http::Scope::read,
               [](const http::Request&) { return http::text_response(200, "text/plain", "hello"); });
    server_.start([&](http::Dispatcher::Executor executor) {
      return http::Dispatcher(router, http::StaticFiles(no_page, {}), {}, std::move(executor));
    });
  }
  std::uint16_t port() const { return server_.port(); }
  void stop() { server_.stop(); }

 private:
  http::Server server_;
};

// A session that ends while stop() looks at it is the case in question; it comes about once in twenty times.
TEST(ServerStop, DoesNotWaitForSessionsThatEndMeanwhile) {
  for (int round = 0; round < 300; ++round) {
    Greeter server;
    ASSERT_EQ(Client(server.port()).get("/hello").status, 200);
    const Stopwatch watch;
    server.stop();
    ASSERT_LT(watch.elapsed_ms(), 60'000) << "round " << round << " waited for all the time there is to drain";
  }
}

TEST(ServerStop, EndsIdleConnections) {
  Greeter server;
  Client idle(server.port()), used(server.port());
  ASSERT_EQ(used.get("/hello").status, 200);
  server.stop();
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(used.closed());
}

}  // namespace
}  // namespace babelring

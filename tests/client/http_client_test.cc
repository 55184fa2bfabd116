#include "client/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "nmt/base/clock.h"
#include "tests/worker/test_server.h"

namespace babelring {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using testing::HasSubstr;

/// A resolver that answers only when it is let go, and counts how often it was asked.
struct SlowResolver {
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);

  HostLookup::Resolver resolver(std::uint16_t port) const {
    return [open = open, asked = asked, port](const std::string&, const std::string&) {
      ++*asked;
      open.wait();
      return HostLookup::Endpoints{{boost::asio::ip::address_v4::loopback(), port}};
    };
  }
};

TEST(HttpClient, LookingUpANameTakesNoLongerThanTheTimeout) {
  Ledger ledger;
  TestServer server(ledger, [](int) { return Behaviour{.status = 503}; });
  SlowResolver slow;
  HttpClient client("http://a.name.that.nobody.answers:1", 50ms, slow.resolver(server.port()));
  const Stopwatch watch;
  for (int i = 0; i < 2; ++i) {
    const auto answer = client.post("/", "{}");
    ASSERT_FALSE(answer.ok());
    EXPECT_THAT(answer.message(), HasSubstr("look up: no answer about 'a.name.that.nobody.answers' within 50 ms"));
  }
  EXPECT_LT(watch.elapsed_ms(), 5000);
  EXPECT_EQ(*slow.asked, 1) << "a question that is still open is not asked again";
  slow.gate.set_value();
  const auto answer = HttpClient("http://name:1", 5s, slow.resolver(server.port())).post("/", "{}");
  ASSERT_TRUE(answer.ok()) << answer.message();
  EXPECT_EQ(answer->status, 503);
}

TEST(HttpClient, CancelEndsALookup) {
  SlowResolver slow;
  HttpClient client("http://name:1", 600s, slow.resolver(1));
  auto posted = std::async(std::launch::async, [&] { return client.post("/", "{}"); });
  while (*slow.asked == 0) std::this_thread::yield();
  client.cancel();
  ASSERT_EQ(posted.wait_for(10s), std::future_status::ready);
  EXPECT_FALSE(posted.get().ok());
  slow.gate.set_value();
}

TEST(HttpClient, AnUnknownNameSaysSo) {
  HttpClient client("http://name:1", 5s, [](const std::string& host, const std::string&) -> HostLookup::Endpoints {
    throw std::runtime_error("Host not found: " + host);
  });
  const auto answer = client.post("/", "{}");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.message(), "http://name:1: look up: Host not found: name");
}

TEST(HttpClient, FindsTheLocalHostByName) {
  Ledger ledger;
  TestServer server(ledger, [](int) { return Behaviour{.status = 503}; });
  HttpClient client("http://localhost:" + std::to_string(server.port()));
  const auto answer = client.post("/", "{}");
  ASSERT_TRUE(answer.ok()) << answer.message();
  EXPECT_EQ(answer->status, 503);
}

}  // namespace
}  // namespace babelring

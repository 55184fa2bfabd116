#include "client/http_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <list>

#include "base/clock.h"
#include "base/failure.h"
#include "base/files.h"
#include "tests/client/scripted_server.h"
#include "tests/client/tls_server.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using testing::HasSubstr;
using testing::ThrowsMessage;

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

TEST(HttpClient, NameLookupTimesOut) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedAnswer{.status = 503}; });
  SlowResolver slow;
  HttpClient client("http://a.name.that.nobody.answers:1", {.timeout = 50ms, .resolver = slow.resolver(server.port())});
  for (int i = 0; i < 2; ++i) {
    const auto answer = client.post("/", "{}");
    ASSERT_FALSE(answer.ok());
    EXPECT_THAT(answer.error(), HasSubstr("look up: no result for 'a.name.that.nobody.answers' within 50 ms"));
  }
  EXPECT_TRUE(soon([&] { return *slow.asked > 0; })) << "the thread that asks may start late";
  EXPECT_EQ(*slow.asked, 1) << "a question that is still open is not asked again";
  slow.gate.set_value();
  const auto answer =
      HttpClient("http://name:1", {.timeout = longest_wait, .resolver = slow.resolver(server.port())}).post("/", "{}");
  ASSERT_TRUE(answer.ok()) << answer.error();
  EXPECT_EQ(answer->status, 503);
}

TEST(HttpClient, CancelEndsALookup) {
  SlowResolver slow;
  HttpClient client("http://name:1", {.timeout = 600s, .resolver = slow.resolver(1)});
  auto posted = std::async(std::launch::async, [&] { return client.post("/", "{}"); });
  while (*slow.asked == 0) std::this_thread::yield();
  client.cancel();
  ASSERT_EQ(posted.wait_for(longest_wait), std::future_status::ready);
  EXPECT_FALSE(posted.get().ok());
  slow.gate.set_value();
}

TEST(HttpClient, ReportsAnUnknownName) {
  const auto unknown = [](const std::string& host, const std::string&) -> HostLookup::Endpoints {
    throw std::runtime_error("Host not found: " + host);
  };
  HttpClient client("http://name:1", {.timeout = longest_wait, .resolver = unknown});
  const auto answer = client.post("/", "{}");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error(), "http://name:1: look up: Host not found: name");
}

TEST(HttpClient, FindsTheLocalHostByName) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedAnswer{.status = 503}; });
  HttpClient client("http://localhost:" + std::to_string(server.port()));
  const auto answer = client.post("/", "{}");
  ASSERT_TRUE(answer.ok()) << answer.error();
  EXPECT_EQ(answer->status, 503);
}

/// An address that neither accepts nor refuses connections: a listener whose queue is full.
class SilentAddress {
 public:
  SilentAddress() : listener_(context_) {
    listener_.open(tcp::v4());
    listener_.bind({boost::asio::ip::address_v4::loopback(), 0});
    listener_.listen(0);
    for (int i = 0; i < 4; ++i) {
      tcp::socket& client = waiting_.emplace_back(context_);
      client.async_connect(endpoint(), [](const boost::system::error_code&) {});
    }
  }
  tcp::endpoint endpoint() const { return listener_.local_endpoint(); }

 private:
  boost::asio::io_context context_;
  tcp::acceptor listener_;
  std::list<tcp::socket> waiting_;
};

TEST(HttpClient, ASilentAddressOfANameCostsAMoment) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedAnswer{.status = 503}; });
  const SilentAddress silent;
  const tcp::endpoint good{boost::asio::ip::address_v4::loopback(), server.port()};
  const auto both = [&](const std::string&, const std::string&) -> HostLookup::Endpoints {
    return {silent.endpoint(), good};
  };
  HttpClient client("http://name:1", {.timeout = 600s, .resolver = both});
  const auto answer = client.post("/", "{}");
  ASSERT_TRUE(answer.ok()) << answer.error();
  EXPECT_EQ(answer->status, 503);
}

TEST(HttpClient, NamesEveryAddressThatItCouldNotReach) {
  const SilentAddress silent;
  const tcp::endpoint closed{boost::asio::ip::address_v4::loopback(), 1};
  const auto both = [&](const std::string&, const std::string&) -> HostLookup::Endpoints {
    return {silent.endpoint(), closed};
  };
  HttpClient client("http://name:1", {.timeout = 50ms, .resolver = both});
  const auto answer = client.post("/", "{}");
  ASSERT_FALSE(answer.ok());
  EXPECT_THAT(answer.error(), HasSubstr(fmt::format("connect: 127.0.0.1:{}: ", silent.endpoint().port())));
  EXPECT_THAT(answer.error(), HasSubstr(", 127.0.0.1:1: Connection refused"));
}

TEST(HttpClient, SendsMethodsHeadersBodiesAndTheToken) {
  ScriptedServer server([](const ScriptedRequest&) {
    return ScriptedAnswer{.body = "[]", .headers = {"ETag: \"x\"", "Retry-After: 7"}};
  });
  HttpClient client(server.address() + "/under/", {.token = "secret-1"});
  for (const char* method : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}) {
    const bool has_body = std::string(method).starts_with('P');
    const auto answer = client.send(
        {.method = method, .target = "/a?b=c", .body = has_body ? "{}" : "", .headers = {{"If-Match", "\"y\""}}});
    ASSERT_TRUE(answer.ok()) << answer.error();
    EXPECT_EQ(answer->body, std::string(method) == "HEAD" ? "" : "[]");
    EXPECT_EQ(answer->header("etag"), "\"x\"");
    EXPECT_EQ(answer->header("absent"), "");
    EXPECT_EQ(answer->retry_after, 7s);
    const ScriptedRequest seen = server.requests().back();
    EXPECT_EQ(seen.method, method);
    EXPECT_EQ(seen.target, "/under/a?b=c");
    EXPECT_EQ(seen.body, has_body ? "{}" : "");
    EXPECT_EQ(seen.header("content-type"), has_body ? "application/json" : "");
    EXPECT_EQ(seen.header("authorization"), "Bearer secret-1");
    EXPECT_EQ(seen.header("if-match"), "\"y\"");
    EXPECT_EQ(seen.header("host"), "127.0.0.1:" + std::to_string(server.port()));
  }
  EXPECT_EQ(server.connections(), 1) << "the connection is kept alive";
  HttpClient plain(server.address());
  ASSERT_TRUE(plain.send({.target = "/"}).ok());
  EXPECT_EQ(server.requests().back().header("authorization"), "");
}

TEST(HttpClient, PassesOnABodyUntilTheSinkStops) {
  ScriptedServer server([](const ScriptedRequest&) {
    return ScriptedAnswer{.pieces = {"one ", "two ", std::string(300000, 'x')}, .hold = true};
  });
  HttpClient client(server.address(), {.timeout = longest_wait});
  std::string got;
  const auto answer = client.send({.target = "/"}, [&](const HttpResponse& head, std::string_view piece) {
    EXPECT_EQ(head.status, 200);
    got += piece;
    return got.size() < 300008;
  });
  ASSERT_TRUE(answer.ok()) << answer.error();
  EXPECT_EQ(got, "one two " + std::string(300000, 'x'));
  EXPECT_EQ(answer->body, "");
}

TEST(HttpClient, ASilentStreamTimesOut) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedAnswer{.pieces = {"one"}, .hold = true}; });
  HttpClient client(server.address(), {.timeout = 500ms});
  std::string got, message;
  EXPECT_TRUE(soon([&] {  // on a slow machine it may time out before the first piece has come
    got.clear();
    const auto answer = client.send({.target = "/"}, [&](const HttpResponse&, std::string_view piece) {
      got += piece;
      return true;
    });
    EXPECT_FALSE(answer.ok());
    message = answer.error();
    return got == "one";
  }));
  EXPECT_THAT(message, HasSubstr("receive: "));
}

TEST(HttpClient, AnErrorBodyDoesNotGoToTheSink) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedAnswer{.status = 404, .body = "gone"}; });
  HttpClient client(server.address());
  const auto answer = client.send({.target = "/"}, [](const HttpResponse&, std::string_view) -> bool {
    ADD_FAILURE() << "not a success";
    return true;
  });
  ASSERT_TRUE(answer.ok()) << answer.error();
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body, "gone");
}

TEST(HttpClient, ABodyThatEndsEarlyIsAnError) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedAnswer{.body = "0123456789", .cut_after = 4}; });
  HttpClient client(server.address());
  const auto answer = client.send({.target = "/"});
  ASSERT_FALSE(answer.ok());
  EXPECT_THAT(answer.error(), HasSubstr("receive: "));
}

TEST(HttpClient, DoesNotRetryARequestThatMayHaveBeenExecuted) {
  EXPECT_TRUE(soon([] {  // on a slow machine the first one may time out
    ScriptedServer server([](const ScriptedRequest& request) { return ScriptedAnswer{.silent = request.number > 0}; });
    HttpClient client(server.address(), {.timeout = 600ms});
    if (!client.post("/", "{}").ok()) return false;
    EXPECT_FALSE(client.post("/", "{}").ok()) << "silence is no closed connection";
    EXPECT_LE(server.requests().size(), 2u);
    return true;
  }));
}

TEST(HttpClient, CancelEndsAStream) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedAnswer{.pieces = {"one"}, .hold = true}; });
  HttpClient client(server.address(), {.timeout = 600s});
  auto streamed = std::async(std::launch::async, [&] {
    return client.send({.target = "/"}, [](const HttpResponse&, std::string_view) { return true; });
  });
  ASSERT_TRUE(server.wait_for_requests(1));
  client.cancel();
  ASSERT_EQ(streamed.wait_for(longest_wait), std::future_status::ready);
  EXPECT_FALSE(streamed.get().ok());
  EXPECT_FALSE(client.send({.target = "/"}).ok()) << "and every later one";
}

TEST(HttpClient, ATokenThatCannotBeAHeaderIsRefused) {
  EXPECT_THAT([] { HttpClient client("http://h:1", {.token = "two words"}); },
              ThrowsMessage<UsageFailure>("token: expected visible ASCII characters without spaces"));
}

/// The fault and the message of a client about a server with this certificate. `trusted`: with the certificate as its
/// authority.
std::pair<TlsFault, std::string> tls_failure(const CertificateOptions& options, bool trusted) {
  const Certificate certificate(options);
  const TlsServer server(certificate);
  const TemporaryFolder folder;
  write_file_atomically(folder / "ca.pem", certificate.certificate());
  HttpClient client(server.address(), {.ca_file = trusted ? folder / "ca.pem" : std::filesystem::path()});
  const auto answer = client.send({.target = "/"});
  return {client.tls_fault(), answer.ok() ? "" : answer.error().substr(server.address().size())};
}

TEST(HttpClient, SaysWhyACertificateIsRefused) {
  const std::string refused = ": TLS handshake: certificate verify failed: ";
  const std::string remedy = "; BABELRING_CA_FILE names a PEM file of authorities to trust instead of the system's";
  EXPECT_EQ(tls_failure({}, true), std::pair(TlsFault::none, std::string()));
  EXPECT_EQ(tls_failure({}, false), std::pair(TlsFault::self_signed, refused + "self-signed certificate" + remedy));
  EXPECT_EQ(tls_failure({.by_authority = true}, false),
            std::pair(TlsFault::unknown_issuer, refused + "unable to get local issuer certificate" + remedy));
  EXPECT_EQ(tls_failure({.valid_from = -3, .valid_to = -2}, true),
            std::pair(TlsFault::expired, refused + "certificate has expired"));
  EXPECT_EQ(tls_failure({.valid_from = 2, .valid_to = 3}, true),
            std::pair(TlsFault::not_yet_valid, refused + "certificate is not yet valid"));
  EXPECT_EQ(tls_failure({.names = "DNS:elsewhere"}, true),
            std::pair(TlsFault::wrong_host, refused + "hostname mismatch; the certificate is not for localhost"));
}

TEST(HttpClient, AnAddressOfNumbersIsANameOfTheCertificate) {
  for (const std::string names : {"IP:127.0.0.1", "DNS:localhost"}) {
    const Certificate certificate({.names = names});
    const TlsServer server(certificate);
    const TemporaryFolder folder;
    write_file_atomically(folder / "ca.pem", certificate.certificate());
    std::string address = server.address();
    address.replace(address.find("localhost"), 9, "127.0.0.1");
    HttpClient client(address, {.ca_file = folder / "ca.pem"});
    const bool trusted = client.send({.target = "/"}).ok();
    EXPECT_EQ(trusted, names == "IP:127.0.0.1");
    EXPECT_EQ(client.tls_fault(), trusted ? TlsFault::none : TlsFault::wrong_host);
  }
}

TEST(HttpClient, SaysThatAServerAnswersWithoutTls) {
  ScriptedServer server([](const ScriptedRequest&) { return ScriptedAnswer{}; });
  HttpClient client("https://127.0.0.1:" + std::to_string(server.port()), {.timeout = longest_wait});
  EXPECT_FALSE(client.send({.target = "/"}).ok());
  EXPECT_THAT(client.tls_fault(), testing::AnyOf(TlsFault::no_tls, TlsFault::other)) << "as the server answers";
}

}  // namespace
}  // namespace babelring

#include "server/http/tls.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>

#include "base/digest.h"
#include "base/failure.h"
#include "client/http_client.h"
#include "server/http/download.h"
#include "server/http/server.h"
#include "server/http/static_files.h"
#include "tests/server/certificate.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring {
namespace {

using testing::Certificate;

class Pieces : public http::BodyStream {
 public:
  std::string next() override { return count_++ < 100 ? std::string(5000, 'p') : std::string(); }

 private:
  int count_ = 0;
};

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() : certificate(folder.path()) {
    std::ofstream(folder.path() / "large", std::ios::binary) << std::string(3'000'000, 'x') << "end";
    http::Router router;
    router.add("GET", "/large", http::Scope::none, [this](const http::Request& request) {
      return http::download_response(request, http::Download{http::open_beneath(folder.path(), "large"), 3'000'003,
                                                             "large", std::string(64, 'a')});
    });
    router.add("GET", "/pieces", http::Scope::none, [](const http::Request&) {
      http::Response response;
      response.body = std::make_shared<Pieces>();
      return response;
    });
    http::Route echo{
        .method = "POST", .path = "/echo", .scope = http::Scope::none, .max_body_bytes = std::size_t{4} << 20};
    echo.handler = [](const std::shared_ptr<const http::Request>& request, const http::Reply& reply) {
      reply(http::text_response(200, "text/plain", request->body));
    };
    router.add(std::move(echo));
    http::Server::Options options;
    options.tls_certificate = certificate.certificate;
    options.tls_key = certificate.key;
    server = std::make_unique<http::Server>(options);
    server->start([&](http::Dispatcher::Executor executor) {
      return http::Dispatcher(router, http::StaticFiles({}, {}), {}, std::move(executor));
    });
  }
  HttpClient client(const std::string& host = "localhost") {
    return HttpClient("https://" + host + ":" + std::to_string(server->port()), {.ca_file = certificate.certificate});
  }
  testing::TemporaryFolder folder;
  Certificate certificate;
  std::unique_ptr<http::Server> server;
};

TEST_F(TlsTest, CarriesRequestsBodiesFilesAndPieces) {
  HttpClient https = client();
  const std::string body(1'000'000, 'b');
  const auto echoed = https.send({.method = "POST", .target = "/echo", .body = body});
  ASSERT_TRUE(echoed.ok()) << echoed.error();
  EXPECT_EQ(echoed->body, body);
  const auto file = https.send({.target = "/large"});
  ASSERT_TRUE(file.ok()) << file.error();
  EXPECT_EQ(file->body.size(), 3'000'003u);
  EXPECT_TRUE(file->body.ends_with("xend"));
  const auto part = https.send({.target = "/large", .headers = {{"Range", "bytes=2999999-3000001"}}});
  ASSERT_TRUE(part.ok()) << part.error();
  EXPECT_EQ(part->status, 206);
  EXPECT_EQ(part->body, "xen");
  const auto pieces = https.send({.target = "/pieces"});
  ASSERT_TRUE(pieces.ok()) << pieces.error();
  EXPECT_EQ(pieces->body.size(), 500'000u);
  const auto last = client().send({.target = "/pieces", .headers = {{"Connection", "close"}}});
  ASSERT_TRUE(last.ok()) << last.error() << ": the end of the connection is that of the body";
  EXPECT_EQ(last->body.size(), 500'000u);
  EXPECT_TRUE(client("127.0.0.1").send({.target = "/large"}).ok());
}

TEST_F(TlsTest, TellsBrowsersToStayWithTls) {
  const auto answer = client().send({.target = "/pieces"});
  ASSERT_TRUE(answer.ok()) << answer.error();
  EXPECT_EQ(answer->headers.at("strict-transport-security"), "max-age=31536000");
  const auto refused = client().send({.target = "/absent"});
  ASSERT_TRUE(refused.ok()) << refused.error();
  EXPECT_TRUE(refused->headers.contains("strict-transport-security"));
  EXPECT_FALSE(testing::Client(server->port()).get("/pieces").headers.contains("strict-transport-security"));
}

TEST_F(TlsTest, IsNotTrustedByThoseWhoDoNotKnowIt) {
  HttpClient stranger("https://localhost:" + std::to_string(server->port()));
  EXPECT_FALSE(stranger.send({.target = "/pieces"}).ok());
}

TEST_F(TlsTest, TellsPlainHttpWhatItWants) {
  testing::Client plain(server->port());
  const auto answer = plain.get("/large");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("https"), std::string::npos);
  EXPECT_TRUE(plain.closed());
  testing::Client noise(server->port());
  noise.send(std::string(200, '\x01'));
  EXPECT_TRUE(noise.closed());
}

TEST_F(TlsTest, EndsAClientThatNeverShakesHands) {
  http::Server::Options options;
  options.tls_certificate = certificate.certificate;
  options.tls_key = certificate.key;
  options.limits.header = std::chrono::milliseconds(150);
  http::Server quick(options);
  quick.start([&](http::Dispatcher::Executor executor) {
    return http::Dispatcher(http::Router(), http::StaticFiles({}, {}), {}, std::move(executor));
  });
  testing::Client silent(quick.port());
  EXPECT_TRUE(silent.closed());
  testing::Client half(quick.port());
  half.send("\x16\x03\x01\x02");
  quick.stop();
  EXPECT_TRUE(half.closed());
}

/// A connection whose handshake is done, as a client that trusts anybody.
class RawTls {
 public:
  explicit RawTls(std::uint16_t port) {
    BIO* connection = BIO_new_ssl_connect(context_.get());
    const std::string address = "localhost:" + std::to_string(port);
    BIO_set_conn_hostname(connection, address.c_str());
    bio_.reset(connection);
    if (BIO_do_handshake(connection) != 1) throw std::runtime_error("no handshake");
    BIO_get_ssl(connection, &ssl);
  }
  SSL* ssl = nullptr;

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  std::unique_ptr<BIO, decltype(&BIO_free_all)> bio_{nullptr, BIO_free_all};
};

// Each makes the server read on within one operation, in which there may be nothing to cancel when the time is up.
TEST_F(TlsTest, EndsAClientThatSendsOnlyNewKeys) {
  signal(SIGPIPE, SIG_IGN);
  http::Server::Options options;
  options.tls_certificate = certificate.certificate;
  options.tls_key = certificate.key;
  options.limits.idle = std::chrono::milliseconds(150);
  http::Server quick(options);
  quick.start([&](http::Dispatcher::Executor executor) {
    return http::Dispatcher(http::Router(), http::StaticFiles({}, {}), {}, std::move(executor));
  });
  const RawTls client(quick.port());
  const auto end = std::chrono::steady_clock::now() + longest_wait;
  bool open = true;
  while (open && std::chrono::steady_clock::now() < end) {
    open = SSL_key_update(client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 && SSL_do_handshake(client.ssl) == 1;
  }
  EXPECT_FALSE(open);
}

/// The version agreed on, or nothing.
std::string handshake(std::uint16_t port, int newest) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_security_level(context.get(), 0);
  SSL_CTX_set_max_proto_version(context.get(), newest);
  const std::string address = "localhost:" + std::to_string(port);
  BIO* connection = BIO_new_ssl_connect(context.get());
  BIO_set_conn_hostname(connection, address.c_str());
  SSL* ssl = nullptr;
  BIO_get_ssl(connection, &ssl);
  const std::string version = BIO_do_handshake(connection) == 1 ? SSL_get_version(ssl) : "";
  BIO_free_all(connection);
  return version;
}

TEST_F(TlsTest, SpeaksNoOldVersion) {
  EXPECT_EQ(handshake(server->port(), TLS1_3_VERSION), "TLSv1.3");
  EXPECT_EQ(handshake(server->port(), TLS1_2_VERSION), "TLSv1.2");
  EXPECT_EQ(handshake(server->port(), TLS1_1_VERSION), "");
}

TEST_F(TlsTest, HandshakesAfterAReloadUseTheNewCertificateAndConnectionsGoOn) {
  HttpClient before = client();
  ASSERT_TRUE(before.send({.target = "/pieces"}).ok());
  std::filesystem::create_directory(folder.path() / "new");
  const Certificate renewed(folder.path() / "new");
  const auto new_client = [&] {
    return HttpClient("https://localhost:" + std::to_string(server->port()), {.ca_file = renewed.certificate});
  };
  EXPECT_FALSE(new_client().send({.target = "/pieces"}).ok());

  const std::string said = server->use_certificate(renewed.certificate, renewed.key);
  EXPECT_TRUE(said.starts_with("CN=localhost, valid until 20")) << said;
  EXPECT_TRUE(new_client().send({.target = "/pieces"}).ok());
  EXPECT_TRUE(before.send({.target = "/pieces"}).ok()) << "its connection has the certificate that it has";
  EXPECT_FALSE(client().send({.target = "/pieces"}).ok());

  EXPECT_THROW(server->use_certificate(certificate.certificate, renewed.key), UsageFailure);
  std::ofstream(folder.path() / "torn.pem") << "-----BEGIN CERTIFICATE-----\nMIIB";
  EXPECT_THROW(server->use_certificate(folder.path() / "torn.pem", renewed.key), UsageFailure);
  EXPECT_TRUE(new_client().send({.target = "/pieces"}).ok()) << "a broken pair leaves the one in use";
}

TEST_F(TlsTest, AsksNobodyForThePassPhraseOfAKey) {
  const std::filesystem::path locked = folder.path() / "locked.pem";
  testing::write_locked_key(certificate.key, locked);
  EXPECT_THROW(http::make_tls_context(certificate.certificate, locked), UsageFailure);
}

TEST_F(TlsTest, WarnsOfACertificateThatClientsRefuseNowOrSoon) {
  const auto warning = [&](long expires_in_days) {
    const testing::TemporaryFolder own;
    const Certificate made(own.path(), expires_in_days * 24 * 3600);
    return http::certificate_warning(*http::make_tls_context(made.certificate, made.key));
  };
  EXPECT_EQ(warning(30), "");
  EXPECT_TRUE(warning(13).starts_with("the certificate of CN=localhost expires on 20")) << warning(13);
  EXPECT_TRUE(warning(-1).starts_with("the certificate of CN=localhost expired on 20")) << warning(-1);
}

TEST_F(TlsTest, NamesTheFileThatIsWrong) {
  const auto message = [](const std::filesystem::path& public_part, const std::filesystem::path& key) -> std::string {
    try {
      http::make_tls_context(public_part, key);
      return "";
    } catch (const UsageFailure& failure) {
      return failure.what();
    }
  };
  EXPECT_EQ(message(certificate.certificate, certificate.key), "");
  EXPECT_TRUE(message(folder.path() / "absent.pem", certificate.key).starts_with("--tls-cert "));
  EXPECT_TRUE(message(certificate.certificate, folder.path() / "absent.pem").starts_with("--tls-key "));
  EXPECT_TRUE(message(certificate.certificate, certificate.certificate).starts_with("--tls-key "));
  std::filesystem::create_directory(folder.path() / "other");
  const Certificate other(folder.path() / "other");
  EXPECT_TRUE(message(certificate.certificate, other.key).starts_with("--tls-key "));
}

}  // namespace
}  // namespace babelring

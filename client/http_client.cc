#include "client/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include "base/clock.h"
#include "base/failure.h"
#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "client/server_access.h"

namespace babelring {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Code = boost::system::error_code;

constexpr std::size_t max_answer_bytes = std::size_t{16} << 20;
constexpr std::size_t piece_bytes = std::size_t{128} << 10;

std::optional<std::chrono::seconds> parse_seconds(std::string_view text) {
  const auto seconds = parse_number<unsigned int>(text);
  return seconds ? std::optional(std::chrono::seconds(*seconds)) : std::nullopt;
}

std::string to_text(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

/// True if the peer closed the connection.
bool closed_by_peer(const Code& code) {
  return code == http::error::end_of_stream || code == asio::error::eof || code == asio::error::connection_reset ||
         code == asio::error::broken_pipe || code == asio::ssl::error::stream_truncated;
}

void require_sendable(const std::string& token) {
  const auto visible = [](unsigned char c) { return c > 0x20 && c < 0x7f; };
  if (std::all_of(token.begin(), token.end(), visible)) return;
  throw UsageFailure("token: expected visible ASCII characters without spaces");
}

std::unique_ptr<asio::ssl::context> make_trust(const ServerAddress& address, const std::filesystem::path& ca_file) {
  if (!address.encrypted) return nullptr;
  auto trust = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  Code code;
  if (ca_file.empty()) {
    static_cast<void>(trust->set_default_verify_paths(code));
  } else {
    static_cast<void>(trust->load_verify_file(ca_file.string(), code));
  }
  if (code)
    throw UsageFailure(fmt::format("{}: cannot load trusted certificates: {}", ca_file.string(), code.message()));
  trust->set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
  trust->set_verify_mode(asio::ssl::verify_peer);
  return trust;
}

/// The fault that a verification's result (X509_V_ERR_*) stands for.
TlsFault verify_fault(long result) {
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return TlsFault::expired;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return TlsFault::not_yet_valid;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return TlsFault::self_signed;
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return TlsFault::unknown_issuer;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return TlsFault::wrong_host;
    default:
      return TlsFault::other;
  }
}

/// The text that follows OpenSSL's words about a failed handshake.
std::string tls_remedy(TlsFault fault, const std::string& host) {
  switch (fault) {
    case TlsFault::self_signed:
    case TlsFault::unknown_issuer:
      return "; BABELRING_CA_FILE names a PEM file of authorities to trust instead of the system's";
    case TlsFault::wrong_host:
      return fmt::format("; the certificate is not for {}", host);
    case TlsFault::no_tls:
      return "; the server answers without TLS";
    default:
      return "";
  }
}

template <class Message>
HttpResponse head_of(const Message& message) {
  HttpResponse answer{.status = static_cast<int>(message.result_int()), .body = {}, .retry_after = {}};
  for (const auto& field : message) {
    answer.headers[lower(field.name_string())] = std::string(field.value());
  }
  answer.retry_after = parse_seconds(answer.header("retry-after"));
  return answer;
}

}  // namespace

std::string_view HttpResponse::header(const std::string& lower_case_name) const {
  const auto at = headers.find(lower_case_name);
  return at == headers.end() ? std::string_view() : std::string_view(at->second);
}

/// Runs each operation asynchronously and waits for its end, because only asynchronous operations have timeouts in
/// Beast.
struct HttpClient::Connection {
  using Encrypted = asio::ssl::stream<beast::tcp_stream&>;

  Connection(std::string_view text, HttpClientOptions given)
      : address(parse_server_address(text)),
        name(address.text()),
        options(std::move(given)),
        trust(make_trust(address, options.ca_file)),
        lookup(address.host, address.port, options.resolver) {
    require_sendable(options.token);
  }

  const ServerAddress address;
  const std::string name;
  const HttpClientOptions options;
  const std::unique_ptr<asio::ssl::context> trust;  // null: not encrypted
  HostLookup lookup;
  asio::io_context context{1};
  beast::tcp_stream stream{context};
  std::optional<Encrypted> encrypted;  // around `stream`, once connected
  beast::flat_buffer buffer;
  std::array<char, piece_bytes> piece;
  bool open = false;
  asio::ip::tcp::endpoint reached_before;
  TlsFault fault = TlsFault::none;  // of the last connection
  bool was_stale = false;           // the last exchange failed because the peer had closed the connection
  std::atomic<bool> cancelled = false;

  template <class Start>
  Code run(SteadyClock::time_point deadline, Start start) {
    Code result = asio::error::operation_aborted;
    if (cancelled) return result;
    stream.expires_at(deadline);
    start([&result](Code code, auto&&...) { result = code; });
    context.restart();
    context.run();
    return cancelled ? Code(asio::error::operation_aborted) : result;
  }
  /// Like run(), on the TLS stream or the plain TCP stream.
  template <class Start>
  Code run_on_stream(SteadyClock::time_point deadline, Start start) {
    return run(deadline, [&](auto done) {
      if (encrypted) {
        start(*encrypted, done);
      } else {
        start(stream, done);
      }
    });
  }
  SteadyClock::time_point from_now() const { return SteadyClock::now() + options.timeout; }

  Status connect() {
    fault = TlsFault::none;
    const auto endpoints = lookup.get(options.timeout);
    if (!endpoints.ok()) return failed("look up", endpoints.error());
    if (auto reached = connect_to_one(*endpoints); !reached.ok()) return reached;
    Code code;
    static_cast<void>(stream.socket().set_option(asio::ip::tcp::no_delay(true), code));
    if (code) return failed("connect", code.message());
    if (trust) {
      encrypted.emplace(stream, *trust);
      name_host();
      code = run(from_now(), [&](auto done) { encrypted->async_handshake(asio::ssl::stream_base::client, done); });
      if (code) return handshake_failed(code);
    }
    open = true;
    return {};
  }

  /// Connects to one of the name's addresses, first to the one that was reached before. While there are others, a
  /// silent address costs a second only; each is tried for the whole timeout after that.
  Status connect_to_one(HostLookup::Endpoints endpoints) {
    std::stable_partition(endpoints.begin(), endpoints.end(), [&](const auto& one) { return one == reached_before; });
    std::string failures;
    for (const bool patient : {false, true}) {
      if (!patient && endpoints.size() < 2) continue;
      bool is_silent = false;
      failures.clear();
      for (const auto& endpoint : endpoints) {
        const auto end = patient ? from_now() : std::min(from_now(), SteadyClock::now() + std::chrono::seconds(1));
        const Code code = run(end, [&](auto done) { stream.async_connect(endpoint, done); });
        if (!code) {
          reached_before = endpoint;
          return {};
        }
        close();
        if (cancelled) return failed("connect", code.message());
        is_silent |= code == beast::error::timeout;
        failures += fmt::format(
            "{}{}", failures.empty() ? "" : ", ",
            endpoints.size() < 2 ? code.message() : fmt::format("{}: {}", to_text(endpoint), code.message()));
      }
      if (!is_silent) break;
    }
    return failed("connect", failures);
  }

  /// Requires a certificate for the host, and sends the host's name in the TLS handshake (SNI). The latter is the macro
  /// SSL_set_tlsext_host_name without its C cast.
  void name_host() {
    SSL* const ssl = encrypted->native_handle();
    X509_VERIFY_PARAM* const required = SSL_get0_param(ssl);
    std::string host = address.host;
    if (X509_VERIFY_PARAM_set1_ip_asc(required, host.c_str()) == 1) return;  // SNI has no addresses (RFC 6066)
    X509_VERIFY_PARAM_set1_host(required, host.data(), host.size());
    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host.data());
  }

  /// Tells why: boost's message for every refused certificate is the same.
  Error handshake_failed(const Code& code) {
    const long result = SSL_get_verify_result(encrypted->native_handle());
    std::string why = code.message();
    fault = TlsFault::other;
    if (result != X509_V_OK) {
      fault = verify_fault(result);
      why = fmt::format("certificate verify failed: {}", X509_verify_cert_error_string(result));
    } else if (code.category() == asio::error::get_ssl_category() &&
               ERR_GET_REASON(static_cast<unsigned long>(code.value())) == SSL_R_WRONG_VERSION_NUMBER) {
      fault = TlsFault::no_tls;
    }
    return failed("TLS handshake", why + tls_remedy(fault, address.host));
  }

  void close() {
    Code ignored;
    encrypted.reset();
    static_cast<void>(stream.socket().close(ignored));
    buffer.clear();
    open = false;
  }

  Result<HttpResponse> exchange(http::request<http::string_body>& request, const BodySink& sink) {
    was_stale = false;
    if (!open) {
      if (const auto done = connect(); !done.ok()) return Error{done.error()};
    }
    const Code sent = run_on_stream(from_now(), [&](auto& way, auto done) { http::async_write(way, request, done); });
    if (sent) {
      was_stale = closed_by_peer(sent);
      return failed("send", sent.message());
    }
    const auto deadline = from_now();
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    parser.skip(request.method() == http::verb::head);
    const Code received =
        run_on_stream(deadline, [&](auto& way, auto done) { http::async_read_header(way, buffer, parser, done); });
    if (received) {
      was_stale = closed_by_peer(received) && !parser.got_some();
      return failed("receive", received.message());
    }
    HttpResponse answer = head_of(parser.get());
    const auto done = read_body(parser, answer, sink, deadline);
    if (!done.ok()) return Error{done.error()};
    if (open && !parser.keep_alive()) close();
    return answer;
  }

  Status read_body(http::response_parser<http::buffer_body>& parser, HttpResponse& answer, const BodySink& sink,
                   SteadyClock::time_point deadline) {
    const bool in_pieces = sink && answer.success();
    while (!parser.is_done()) {
      auto& body = parser.get().body();
      body.data = piece.data();
      body.size = piece.size();
      const Code code = run_on_stream(in_pieces ? from_now() : deadline,
                                      [&](auto& way, auto done) { http::async_read_some(way, buffer, parser, done); });
      if (code && code != http::error::need_buffer) return failed("receive", code.message());
      const std::string_view got(piece.data(), piece.size() - body.size);
      if (in_pieces && !got.empty() && !sink(answer, got)) {
        close();  // discard the rest
        return {};
      }
      if (in_pieces) continue;
      answer.body += got;
      if (answer.body.size() > max_answer_bytes) {
        return failed("receive", fmt::format("the response is longer than {} bytes", max_answer_bytes));
      }
    }
    return {};
  }

  Error failed(const char* what, const std::string& why) {
    close();
    return Error{fmt::format("{}: {}: {}", name, what, why)};
  }
};

HttpClient::HttpClient(std::string_view address, HttpClientOptions options)
    : connection_(std::make_unique<Connection>(address, std::move(options))) {}

HttpClient::~HttpClient() = default;

Result<HttpResponse> HttpClient::send(const HttpRequest& wanted, const BodySink& sink) {
  const ServerAddress& address = connection_->address;
  http::request<http::string_body> request(http::string_to_verb(wanted.method), address.prefix + wanted.target, 11);
  if (request.method() == http::verb::unknown) fail("http client: unknown method '{}'", wanted.method);
  request.set(http::field::host, address.authority());
  request.set(http::field::user_agent, fmt::format("babelring/{}", version));
  if (!connection_->options.token.empty()) {
    request.set(http::field::authorization, "Bearer " + connection_->options.token);
  }
  const bool has_body = !wanted.body.empty() || wanted.method == "POST";
  if (has_body) request.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : wanted.headers) request.set(name, value);
  request.body() = wanted.body;
  request.prepare_payload();
  const bool reused = connection_->open;
  Result<HttpResponse> answer = connection_->exchange(request, sink);
  if (!answer.ok() && reused && connection_->was_stale && !connection_->cancelled) {
    answer = connection_->exchange(request, sink);
  }
  return answer;
}

Result<HttpResponse> HttpClient::post(std::string_view target, std::string body) {
  return send({.method = "POST", .target = std::string(target), .body = std::move(body)});
}

void HttpClient::cancel() {
  connection_->cancelled = true;
  connection_->lookup.cancel();
  asio::post(connection_->context, [connection = connection_.get()] { connection->stream.cancel(); });
}

TlsFault HttpClient::tls_fault() const {
  return connection_->fault;
}

bool HttpClient::cancelled() const {
  return connection_->cancelled;
}

const std::string& HttpClient::address() const {
  return connection_->name;
}

}  // namespace babelring

#include "client/http_client.h"

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <charconv>
#include <utility>

#include "nmt/base/log.h"
#include "nmt/base/version.h"

namespace babelring {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Code = boost::system::error_code;

constexpr std::size_t max_answer_bytes = std::size_t{1} << 20;

struct Address {
  std::string host, port, prefix;
};

Address parse_address(std::string_view text) {
  const auto url = boost::urls::parse_uri(text);
  if (!url || url->scheme() != "http" || url->encoded_host().empty() || url->has_query() || url->has_fragment() ||
      url->has_userinfo()) {
    throw UsageFailure(fmt::format("server: expected http://host:port, found '{}'", printable(text)));
  }
  Address address{.host = url->host_address(), .port = url->port(), .prefix = std::string(url->encoded_path())};
  if (address.port.empty()) address.port = "80";
  while (address.prefix.ends_with('/')) address.prefix.pop_back();
  return address;
}

std::optional<std::chrono::seconds> parse_seconds(std::string_view text) {
  unsigned int seconds = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return std::chrono::seconds(seconds);
}

}  // namespace

/// Each operation is started asynchronously, because only those have timeouts in Beast, and run to its end.
struct HttpClient::Connection {
  Connection(Address where, std::chrono::milliseconds limit, HostLookup::Resolver resolver)
      : address(std::move(where)), timeout(limit), lookup(address.host, address.port, std::move(resolver)) {}

  const Address address;
  const std::chrono::milliseconds timeout;
  HostLookup lookup;
  asio::io_context context{1};
  beast::tcp_stream stream{context};
  beast::flat_buffer buffer;
  bool open = false;
  std::atomic<bool> cancelled = false;

  template <class Start>
  Code run(Start start) {
    Code result = asio::error::operation_aborted;
    if (cancelled) return result;
    stream.expires_after(timeout);
    start([&result](Code code, auto&&...) { result = code; });
    context.restart();
    context.run();
    return cancelled ? Code(asio::error::operation_aborted) : result;
  }

  Result<Done> connect() {
    const auto endpoints = lookup.get(timeout);
    if (!endpoints.ok()) return failed("look up", endpoints.message());
    Code code = run([&](auto done) { stream.async_connect(*endpoints, done); });
    if (!code) stream.socket().set_option(asio::ip::tcp::no_delay(true), code);
    if (code) return failed("connect", code.message());
    open = true;
    return Done{};
  }

  void close() {
    Code ignored;
    stream.socket().close(ignored);
    buffer.clear();
    open = false;
  }

  Result<HttpAnswer> exchange(http::request<http::string_body>& request) {
    if (!open) {
      if (const auto done = connect(); !done.ok()) return Error{done.message()};
    }
    if (const Code code = run([&](auto done) { http::async_write(stream, request, done); }); code) {
      return failed("send", code.message());
    }
    http::response_parser<http::string_body> parser;
    parser.body_limit(max_answer_bytes);
    if (const Code code = run([&](auto done) { http::async_read(stream, buffer, parser, done); }); code) {
      return failed("receive", code.message());
    }
    http::response<http::string_body> response = parser.release();
    if (!response.keep_alive()) close();
    const auto retry = response[http::field::retry_after];
    return HttpAnswer{.status = static_cast<int>(response.result_int()),
                      .body = std::move(response.body()),
                      .retry_after = parse_seconds({retry.data(), retry.size()})};
  }

  Error failed(const char* what, const std::string& why) {
    close();
    return Error{fmt::format("http://{}:{}: {}: {}", address.host, address.port, what, why)};
  }
};

HttpClient::HttpClient(std::string_view address, std::chrono::milliseconds timeout, HostLookup::Resolver resolver)
    : connection_(std::make_unique<Connection>(parse_address(address), timeout, std::move(resolver))) {}

HttpClient::~HttpClient() = default;

Result<HttpAnswer> HttpClient::post(std::string_view target, std::string body) {
  const Address& address = connection_->address;
  http::request<http::string_body> request(http::verb::post, address.prefix + std::string(target), 11);
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? "[" + address.host + "]" : address.host;
  request.set(http::field::host, host + ":" + address.port);
  request.set(http::field::user_agent, fmt::format("babelring-worker/{}", version));
  request.set(http::field::content_type, "application/json");
  request.body() = std::move(body);
  request.prepare_payload();
  const bool reused = connection_->open;
  Result<HttpAnswer> answer = connection_->exchange(request);
  if (!answer.ok() && reused && !connection_->cancelled) answer = connection_->exchange(request);
  return answer;
}

void HttpClient::cancel() {
  connection_->cancelled = true;
  connection_->lookup.cancel();
  asio::post(connection_->context, [connection = connection_.get()] { connection->stream.cancel(); });
}

}  // namespace babelring

#include "server/http/response_writer.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <string_view>
#include <utility>

namespace babelring::http {
namespace {

constexpr std::string_view default_policy =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n";
constexpr std::string_view always =
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n";

/// Some values quote untrusted manifests: no value may start a new line.
void add_field(std::string& head, std::string_view name, std::string_view value) {
  head.append(name).append(": ");
  const std::size_t start = head.size();
  head.append(value).append("\r\n");
  for (std::size_t i = start; i < start + value.size(); ++i) {
    if (static_cast<unsigned char>(head[i]) < 0x20 || head[i] == 0x7f) head[i] = '_';
  }
}

/// The Date header, refreshed once per second.
const std::string& date_line() {
  thread_local std::string line;
  thread_local std::time_t made = -1;
  const std::time_t now = std::time(nullptr);
  if (now != made) line = fmt::format("Date: {:%a, %d %b %Y %H:%M:%S GMT}\r\n", fmt::gmtime(now));
  made = now;
  return line;
}

}  // namespace

std::string response_head(const Response& response, const BodyFraming& framing, const std::string& request_id) {
  std::string head;
  head.reserve(1024);
  head.append("HTTP/1.1 ").append(fmt::format_int(response.status).c_str()).append(" ");
  head.append(reason_of(response.status)).append("\r\n").append(date_line());
  for (const auto& [name, value] : response.headers) add_field(head, name, value);
  if (framing.length) add_field(head, "Content-Length", fmt::format_int(*framing.length).c_str());
  if (framing.chunked) head += "Transfer-Encoding: chunked\r\n";
  if (framing.close) head += "Connection: close\r\n";
  if (framing.strict_transport) head += "Strict-Transport-Security: max-age=31536000\r\n";
  if (!request_id.empty()) add_field(head, "X-Request-Id", request_id);
  if (response.header("Content-Security-Policy").empty()) head.append(default_policy);
  return head.append(always).append("\r\n");
}

namespace {

std::string_view text_of(const Response& response) {
  if (const auto* text = std::get_if<std::string>(&response.body)) return *text;
  const auto* view = std::get_if<std::string_view>(&response.body);
  return view == nullptr ? std::string_view() : *view;
}

bool has_text(const Response& response) {
  return std::holds_alternative<std::string>(response.body) || std::holds_alternative<std::string_view>(response.body);
}

BodyFraming framing_of(const Request& request, const Response& response) {
  BodyFraming framing;
  framing.close = !request.keep_alive;
  if (has_text(response)) {
    framing.length = static_cast<std::int64_t>(text_of(response).size());
  } else if (const auto* slice = std::get_if<FileSlice>(&response.body)) {
    framing.length = slice->length;
  } else if (const auto* composite = std::get_if<CompositeBody>(&response.body)) {
    framing.length = composite->length();
  } else {
    framing.chunked = std::holds_alternative<std::shared_ptr<BodyStream>>(response.body) && request.keep_alive;
    framing.close = !framing.chunked;
  }
  if (response.status == 304 || response.status == 204) framing.length.reset();
  return framing;
}

}  // namespace

ResponseWriter::Outgoing ResponseWriter::begin(const Request& request, Response& response) {
  BodyFraming framing = framing_of(request, response);
  framing.strict_transport = strict_transport_;
  for (const auto& [name, value] : request.answer_headers) response.set(name, value);
  const bool bodiless = request.method == "HEAD" || response.status == 304 || response.status == 204;
  if (bodiless) response.body = std::string();
  Outgoing out{response_head(response, framing, request.id), text_of(response), 0, false, !framing.close};
  out.sent = client_.send_now(out.head, out.text);
  out.whole = has_text(response) && out.sent == out.head.size() + out.text.size();
  return out;
}

ClientSocket::Awaitable<void> ResponseWriter::finish(const Request& request, const Response& response,
                                                     const Outgoing& out) {
  const std::size_t in_head = std::min(out.sent, out.head.size());
  co_await client_.write(std::string_view(out.head).substr(in_head), out.text.substr(out.sent - in_head));
  if (const auto* slice = std::get_if<FileSlice>(&response.body)) co_await client_.write(*slice);
  if (const auto* composite = std::get_if<CompositeBody>(&response.body)) {
    for (const auto& part : composite->parts) {
      const auto* text = std::get_if<std::string>(&part);
      if (text != nullptr) co_await client_.write(*text);
      if (text == nullptr) co_await client_.write(std::get<FileSlice>(part));
    }
  }
  if (const auto* stream = std::get_if<std::shared_ptr<BodyStream>>(&response.body)) {
    co_await write_stream(request, *stream);
  }
}

ClientSocket::Awaitable<void> ResponseWriter::refuse(const Problem& problem) {
  const Response response = problem_response(problem, "");
  const std::string_view body = text_of(response);
  const BodyFraming framing{static_cast<std::int64_t>(body.size()), false, true, strict_transport_};
  client_.activity().enter(Standing::Phase::closing);
  co_await client_.write(response_head(response, framing, ""), body);
}

ClientSocket::Awaitable<std::string> ResponseWriter::next_chunk(const Request& request,
                                                                std::shared_ptr<BodyStream> stream) {
  struct Chunk {
    std::string text;
    std::exception_ptr failure;
  };
  Arrival<Chunk> arrival(client_.socket().get_executor());
  dispatcher_.run(request, [send = arrival.sender(), stream = std::move(stream)] {
    Chunk chunk;
    try {
      chunk.text = stream->next();
    } catch (...) {
      chunk.failure = std::current_exception();
    }
    send(std::move(chunk));
  });
  const auto end = ClientSocket::Clock::now() + max_chunk_time_;
  while (!co_await arrival.wait(std::chrono::seconds(1))) {
    const bool late = ClientSocket::Clock::now() >= end;
    // Ends the body early, so that the client sees that it is incomplete.
    if (late || client_.hung_up()) throw boost::system::system_error(boost::asio::error::timed_out);
  }
  Chunk chunk = arrival.take();
  if (chunk.failure) std::rethrow_exception(chunk.failure);
  co_return std::move(chunk.text);
}

ClientSocket::Awaitable<void> ResponseWriter::write_stream(const Request& request, std::shared_ptr<BodyStream> stream) {
  const bool chunked = request.keep_alive;
  for (;;) {
    client_.clear_deadline();
    const std::string chunk = co_await next_chunk(request, stream);
    if (chunk.empty()) break;
    if (!chunked) {
      co_await client_.write(chunk);
      continue;
    }
    const std::string size_line = fmt::format("{:x}\r\n", chunk.size());
    co_await client_.write(size_line, chunk);
    co_await client_.write("\r\n");
  }
  if (chunked) co_await client_.write("0\r\n\r\n");
}

}  // namespace babelring::http

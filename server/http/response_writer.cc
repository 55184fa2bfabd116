#include "server/http/response_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "server/http/arrival.h"
#include "server/http/response_head.h"

namespace babelring::http {
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

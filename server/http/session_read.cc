#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "server/http/framing.h"
#include "server/http/problem.h"
#include "server/http/session.h"

namespace babelring::http {
namespace {

using asio::use_awaitable;
using boost::system::error_code;

constexpr std::size_t max_head_bytes = max_request_line_bytes + max_header_bytes;
constexpr std::size_t first_read_bytes = 2048;  // most heads are shorter
constexpr std::size_t first_body_bytes = 4096;

}  // namespace

std::string Session::client_of(const Request& request) {
  return request.caller ? "token " + request.caller->token : "address " + request.address;
}

asio::mutable_buffer Session::scrap() {
  thread_local std::array<char, std::size_t{64} << 10> bytes;
  return asio::buffer(bytes);
}

asio::awaitable<std::size_t> Session::read_head() {
  constexpr std::string_view end_of_head = "\r\n\r\n";
  if (buffer_.empty() && finishing_) co_return 0;
  const bool reserve = place() == Place::reserve;
  if (served_ > 0) enter(Standing::Phase::idle);
  error_code code;
  bool begun = false;
  for (std::size_t searched = 0; !code;) {
    const auto end = buffer_.find(end_of_head, searched);
    if (end != std::string::npos && end + end_of_head.size() <= max_head_bytes) co_return end + end_of_head.size();
    const std::size_t have = buffer_.size();
    if (have >= max_head_bytes) break;
    if (have == 0) set_deadline(reserve ? limits_.reserve_head : limits_.idle);
    if (have > 0 && !std::exchange(begun, true)) set_deadline(reserve ? limits_.reserve_head : limits_.header);
    if (timed_out_) break;  // at the moment when more came: another read would have no deadline
    searched = have - std::min(have, end_of_head.size() - 1);
    buffer_.resize(std::min(max_head_bytes, have + first_read_bytes));
    interruptible_ = have == 0;
    const std::size_t size = co_await transport_.async_read_some(
        asio::buffer(buffer_.data() + have, buffer_.size() - have), asio::redirect_error(use_awaitable, code));
    interruptible_ = false;
    buffer_.resize(have + size);
    if (code && have == 0) co_return 0;
  }
  if (!code && !timed_out_) {
    const bool line = buffer_.find('\n') > max_request_line_bytes;
    co_await refuse(line ? 414 : 431, line ? "target_too_long" : "headers_too_long",
                    line ? "request line is longer than 4096 bytes" : "request headers are longer than 8192 bytes");
  } else if (timed_out_) {
    co_await refuse(408, "head_too_slow", "the request's head did not come in time");
  }
  co_return 0;
}

asio::awaitable<std::optional<RequestHead>> Session::next_head() {
  const std::size_t bytes = co_await read_head();
  if (bytes == 0) co_return std::nullopt;
  clear_deadline();
  const std::string_view text(buffer_.data(), bytes);
  if (const auto fault = check_framing(text)) {
    co_await refuse(fault->status, "malformed", fault->detail);
    co_return std::nullopt;
  }
  auto head = parse_head(text);
  if (!head) {
    co_await refuse(400, "malformed", head.error());
    co_return std::nullopt;
  }
  buffer_.erase(0, bytes);
  enter(Standing::Phase::working);
  co_return std::move(*head);
}

asio::awaitable<bool> Session::take_body(Request& request, const RequestHead& head, std::optional<Response>& refusal) {
  if (!refusal) co_return co_await read_body(request, head, refusal);
  // A reporter over its rate comes again, and shall find its connection open.
  const bool passes_over = refusal->status == 429 && request.keep_alive && !head.expects_continue &&
                           request.content_length <= max_drained_bytes;
  if (passes_over) co_return co_await discard_body(request.content_length);
  request.keep_alive = false;
  co_return true;
}

asio::awaitable<bool> Session::read_body(Request& request, const RequestHead& head, std::optional<Response>& refusal) {
  const auto size = static_cast<std::size_t>(request.content_length);
  const auto room = std::make_shared<BodyMemory::Room>(bodies_, client_of(request));
  const auto no_room = [&] {
    refusal = problem_response(Problem(503, "busy", "no memory is left for this body; send it again"), request.id);
    request.body = std::string();
    request.keep_alive = false;  // the rest is not read
    return true;
  };
  // A body that could not become whole now is not begun.
  if (!room->could_grow_to(request.content_length)) co_return no_room();
  if (head.expects_continue) co_await write_all("HTTP/1.1 100 Continue\r\n\r\n", {});
  const auto start = std::chrono::steady_clock::now();
  std::string& body = request.body;
  std::size_t have = std::min(size, buffer_.size());
  for (error_code code; !code;) {
    if (body.size() < size && have >= body.size()) {  // four times as much as has come
      std::string larger;
      const std::size_t capacity = std::min(size, std::max(4 * have, first_body_bytes));
      if (!room->grow_to(static_cast<std::int64_t>(capacity))) co_return no_room();
      larger.reserve(capacity);
      larger.append(body.empty() ? std::string_view(buffer_).substr(0, have) : std::string_view(body));
      if (body.empty()) buffer_.erase(0, have);
      larger.resize(capacity);
      body.swap(larger);
    }
    if (have == size) {
      request.room = room;
      co_return true;
    }
    if (!co_await body_is_in_time(start, have)) co_return false;
    have += co_await transport_.async_read_some(asio::buffer(body.data() + have, body.size() - have),
                                                asio::redirect_error(use_awaitable, code));
  }
  if (timed_out_) co_await body_is_in_time(start, have);
  co_return false;
}

asio::awaitable<bool> Session::discard_body(std::int64_t length) {
  const auto start = std::chrono::steady_clock::now();
  std::size_t have = std::min(static_cast<std::size_t>(length), buffer_.size());
  buffer_.erase(0, have);
  for (error_code code; !code;) {
    const std::size_t left = static_cast<std::size_t>(length) - have;
    if (left == 0) co_return true;
    if (!co_await body_is_in_time(start, have)) co_return false;
    have += co_await transport_.async_read_some(asio::buffer(scrap(), left), asio::redirect_error(use_awaitable, code));
  }
  if (timed_out_) co_await body_is_in_time(start, have);
  co_return false;
}

asio::awaitable<bool> Session::body_is_in_time(std::chrono::steady_clock::time_point start, std::size_t have) {
  // A body that trickles in holds memory and a connection: it must also keep up a rate.
  const auto earned = limits_.body_grace + std::chrono::milliseconds(have * 1000 / limits_.body_bytes_a_second);
  const auto most = place() == Place::reserve ? limits_.reserve_body : limits_.body;
  const auto passed = std::chrono::steady_clock::now() - start;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(std::min(most, earned) - passed);
  if (left.count() > 0) {
    set_deadline(left);
    co_return true;
  }
  co_await refuse(408, "body_too_slow", "the request's body did not come in time");
  co_return false;
}

}  // namespace babelring::http

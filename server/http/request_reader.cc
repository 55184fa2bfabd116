#include "server/http/request_reader.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <utility>

#include "server/http/request_head.h"

namespace babelring::http {
namespace {

namespace asio = boost::asio;
using asio::use_awaitable;
using boost::system::error_code;

constexpr std::size_t max_head_bytes = max_request_line_bytes + max_header_bytes;
// Most heads are shorter. With the string's terminator it fills a size class of the allocator.
constexpr std::size_t first_read_bytes = 1023;
constexpr std::size_t first_body_bytes = 4096;

}  // namespace

std::string memory_owner(const Request& request) {
  return request.caller ? "token " + request.caller->token : "address " + request.address;
}

asio::awaitable<bool> RequestReader::wait_for_head() {
  constexpr std::string_view end_of_head = "\r\n\r\n";
  if (buffer_.empty() && client_.finishing()) co_return false;
  if (any_) client_.activity().enter(Standing::Phase::idle);
  error_code code;
  bool begun = false;
  for (std::size_t searched = 0; !code;) {
    const auto end = buffer_.find(end_of_head, searched);
    head_bytes_ = end + end_of_head.size();
    if (end != std::string::npos && head_bytes_ <= max_head_bytes) co_return true;
    const std::size_t have = buffer_.size();
    if (have >= max_head_bytes) break;
    if (have == 0) client_.set_deadline(reserve_ ? limits_.reserve_head : limits_.idle);
    if (have > 0 && !std::exchange(begun, true)) client_.set_deadline(reserve_ ? limits_.reserve_head : limits_.header);
    if (client_.timed_out()) break;  // at the moment when more came: another read would have no deadline
    searched = have - std::min(have, end_of_head.size() - 1);
    buffer_.resize(std::min(max_head_bytes, have + first_read_bytes));
    client_.set_interruptible(have == 0);
    const std::size_t size = co_await client_.transport().async_read_some(
        asio::buffer(buffer_.data() + have, buffer_.size() - have), asio::redirect_error(use_awaitable, code));
    client_.set_interruptible(false);
    buffer_.resize(have + size);
    if (code && have == 0) co_return false;
  }
  if (client_.timed_out()) {
    fault_.emplace(408, "head_too_slow", "the request's head did not come in time");
  } else if (!code) {
    const bool line = buffer_.find('\n') > max_request_line_bytes;
    fault_.emplace(line ? Problem(414, "target_too_long", "request line is longer than 4096 bytes")
                        : Problem(431, "headers_too_long", "request headers are longer than 8192 bytes"));
  }
  co_return false;
}

std::optional<RequestHead> RequestReader::take_head() {
  client_.clear_deadline();
  const std::string_view text(buffer_.data(), head_bytes_);
  if (const auto fault = check_framing(text)) {
    fault_.emplace(fault->status, "malformed", fault->detail);
    return std::nullopt;
  }
  auto head = parse_head(text);
  if (!head) {
    fault_.emplace(400, "malformed", head.error());
    return std::nullopt;
  }
  buffer_.erase(0, head_bytes_);
  any_ = true;
  client_.activity().enter(Standing::Phase::working);
  return std::move(*head);
}

asio::awaitable<RequestReader::Body> RequestReader::read_body(Request& request, bool expects_continue) {
  const auto size = static_cast<std::size_t>(request.content_length);
  const auto room = std::make_shared<BodyMemory::Room>(bodies_, memory_owner(request));
  // Without memory for the whole body, its reading does not begin.
  if (!room->could_grow_to(request.content_length)) co_return Body::no_room;
  if (expects_continue) co_await client_.write("HTTP/1.1 100 Continue\r\n\r\n");
  const auto start = ClientSocket::Clock::now();
  std::string& body = request.body;
  std::size_t have = std::min(size, buffer_.size());
  for (error_code code; !code;) {
    if (body.size() < size && have >= body.size()) {  // to four times the bytes that have come
      std::string larger;
      const std::size_t capacity = std::min(size, std::max(4 * have, first_body_bytes));
      if (!room->grow_to(static_cast<std::int64_t>(capacity))) {
        body = std::string();
        co_return Body::no_room;
      }
      larger.reserve(capacity);
      larger.append(body.empty() ? std::string_view(buffer_).substr(0, have) : std::string_view(body));
      if (body.empty()) buffer_.erase(0, have);
      larger.resize(capacity);
      body.swap(larger);
    }
    if (have == size) {
      request.room = room;
      co_return Body::complete;
    }
    if (!extend_deadline(start, have)) co_return Body::over;
    have += co_await client_.transport().async_read_some(asio::buffer(body.data() + have, body.size() - have),
                                                         asio::redirect_error(use_awaitable, code));
  }
  if (client_.timed_out()) extend_deadline(start, have);
  co_return Body::over;
}

asio::awaitable<bool> RequestReader::discard_body(std::int64_t length) {
  const auto start = ClientSocket::Clock::now();
  std::size_t have = std::min(static_cast<std::size_t>(length), buffer_.size());
  buffer_.erase(0, have);
  for (error_code code; !code;) {
    const std::size_t left = static_cast<std::size_t>(length) - have;
    if (left == 0) co_return true;
    if (!extend_deadline(start, have)) co_return false;
    have += co_await client_.transport().async_read_some(asio::buffer(scrap_buffer(), left),
                                                         asio::redirect_error(use_awaitable, code));
  }
  if (client_.timed_out()) extend_deadline(start, have);
  co_return false;
}

bool RequestReader::extend_deadline(ClientSocket::Clock::time_point start, std::size_t have) {
  // A body that trickles in holds memory and a connection: it must also keep up a rate.
  const auto earned = limits_.body_grace + std::chrono::milliseconds(have * 1000 / limits_.body_bytes_a_second);
  const auto max = reserve_ ? limits_.reserve_body : limits_.body;
  const auto passed = ClientSocket::Clock::now() - start;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(std::min(max, earned) - passed);
  if (left.count() > 0) {
    client_.set_deadline(left);
    return true;
  }
  fault_.emplace(408, "body_too_slow", "the request's body did not come in time");
  return false;
}

}  // namespace babelring::http

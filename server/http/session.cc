#include "server/http/session.h"

#include <poll.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <utility>

#include "nmt/base/log.h"
#include "server/http/access_line.h"
#include "server/http/arrival.h"
#include "server/http/framing.h"
#include "server/http/problem.h"
#include "server/http/response_head.h"
#include "server/http/tls.h"

namespace babelring::http {
namespace {

using asio::use_awaitable;
using boost::system::error_code;

constexpr std::size_t most_head_bytes = most_request_line_bytes + most_header_bytes;
constexpr std::int64_t max_drained_bytes = std::int64_t{4} << 20;      // of a body that is not wanted
constexpr std::size_t first_read_bytes = 2048;                         // most heads are shorter
constexpr std::chrono::milliseconds first_look(50), most_pause(1000);  // whether the client still waits for an answer

}  // namespace

Session::Session(asio::ip::tcp::socket socket, asio::ssl::context* tls, std::string address,
                 const Dispatcher& dispatcher, const Limits& limits, Connections& connections)
    : transport_(std::move(socket), tls),
      socket_(transport_.socket()),
      deadline_(socket_.get_executor()),
      ready_(socket_.get_executor()),
      dispatcher_(dispatcher),
      limits_(limits),
      connections_(connections),
      address_(std::move(address)) {}

Session::~Session() {
  connections_.remove(this);
}

void Session::start() {
  connections_.add(shared_from_this());
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->run(); }, asio::detached);
}

void Session::finish() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->finishing_ = true;
    if (self->interruptible_) self->close();
  });
}

void Session::abort() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->close(); });
}

void Session::close() {
  error_code ignored;
  socket_.close(ignored);
  ready_.cancel();
}

void Session::set_deadline(std::chrono::milliseconds limit) {
  due_ = std::chrono::steady_clock::now() + limit;
  timed_out_ = false;
  if (due_ < wakes_) wait_until(due_);
}

void Session::wait_until(std::chrono::steady_clock::time_point time) {
  wakes_ = time;
  deadline_.expires_at(time);
  deadline_.async_wait([weak = weak_from_this()](error_code code) {
    const auto self = weak.lock();
    if (code || !self) return;
    self->wakes_ = std::chrono::steady_clock::time_point::max();
    if (self->due_ > std::chrono::steady_clock::now()) {
      if (self->due_ < self->wakes_) self->wait_until(self->due_);
      return;
    }
    self->clear_deadline();
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
    self->ready_.cancel();
  });
}

asio::awaitable<void> Session::run() {
  try {
    if (co_await secure()) {
      while (co_await serve_one()) {
      }
      if (events_) co_await write_events();
    }
    co_await part();
  } catch (const boost::system::system_error&) {
    // The client left or stalled, or the server is stopping.
  } catch (const std::exception& failure) {
    spdlog::error("connection: {}", failure.what());
  }
  // Not left to the destructor: that may run in the hub, which holds its lock while it wakes this session.
  events_.reset();
  if (gone_) *gone_ = true;  // a handler or producer may still work for the last request
  deadline_.cancel();
  close();
}

asio::awaitable<bool> Session::secure() {
  if (!transport_.encrypted()) co_return true;
  set_deadline(limits_.header);
  interruptible_ = true;
  error_code code;
  co_await transport_.async_handshake(asio::redirect_error(use_awaitable, code));
  interruptible_ = false;
  if (!code) co_return true;
  if (spoke_plain_http(code)) {
    const Response response = problem_response(Problem(400, "tls_wanted", "this address speaks https"), "");
    const auto& body = std::get<std::string>(response.body);
    const BodyFraming framing{static_cast<std::int64_t>(body.size()), false, true};
    const std::string answer = response_head(response, framing, "") + body;
    co_await asio::async_write(socket_, asio::buffer(answer), use_awaitable);
  }
  co_return false;
}

asio::awaitable<void> Session::part() {
  error_code ignored;
  constexpr std::chrono::milliseconds moment(500);
  set_deadline(moment);
  // Without a close_notify, the client would take the end of a body without a length for a broken connection.
  const bool all_said = transport_.encrypted() && socket_.is_open() && served_ > 0;
  if (all_said) co_await transport_.async_shutdown(asio::redirect_error(use_awaitable, ignored));
  // Closing while unread bytes arrive would reset the connection, and the last response with it.
  if (socket_.is_open()) socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  set_deadline(moment);
  std::string rest(4096, '\0');
  while (socket_.is_open() && !finishing_) co_await socket_.async_read_some(asio::buffer(rest), use_awaitable);
}

asio::awaitable<std::size_t> Session::read_head() {
  constexpr std::string_view end_of_head = "\r\n\r\n";
  if (buffer_.empty() && finishing_) co_return 0;
  error_code code;
  bool begun = false;
  for (std::size_t searched = 0; !code;) {
    const auto end = buffer_.find(end_of_head, searched);
    if (end != std::string::npos && end + end_of_head.size() <= most_head_bytes) co_return end + end_of_head.size();
    const std::size_t have = buffer_.size();
    if (have >= most_head_bytes) break;
    if (have == 0) set_deadline(limits_.idle);
    if (have > 0 && !std::exchange(begun, true)) set_deadline(limits_.header);
    if (timed_out_) break;  // at the moment when more came: another read would have no deadline
    searched = have - std::min(have, end_of_head.size() - 1);
    buffer_.resize(std::min(most_head_bytes, have + first_read_bytes));
    interruptible_ = have == 0;
    const std::size_t size = co_await transport_.async_read_some(
        asio::buffer(buffer_.data() + have, buffer_.size() - have), asio::redirect_error(use_awaitable, code));
    interruptible_ = false;
    buffer_.resize(have + size);
    if (code && have == 0) co_return 0;
  }
  if (!code && !timed_out_) {
    const bool line = buffer_.find('\n') > most_request_line_bytes;
    co_await refuse(line ? 414 : 431, line ? "target_too_long" : "headers_too_long",
                    line ? "request line is longer than 4096 bytes" : "request headers are longer than 8192 bytes");
  } else if (timed_out_) {
    co_await refuse(408, "head_too_slow", "the request's head did not come in time");
  }
  co_return 0;
}

asio::awaitable<void> Session::refuse(int status, std::string code, std::string detail) {
  note_malformed(dispatcher_.access_log(), address_, status);
  Response response = problem_response(Problem(status, std::move(code), detail), "");
  const auto& body = std::get<std::string>(response.body);
  const BodyFraming framing{static_cast<std::int64_t>(body.size()), false, true};
  co_await write_all(response_head(response, framing, ""), body);
}

asio::awaitable<bool> Session::serve_one() {
  const std::size_t head_bytes = co_await read_head();
  if (head_bytes == 0) co_return false;
  const std::string_view head_text(buffer_.data(), head_bytes);
  if (const auto fault = check_framing(head_text)) {
    co_await refuse(fault->status, "malformed", fault->detail);
    co_return false;
  }
  auto head = parse_head(head_text);
  if (!head) {
    co_await refuse(400, "malformed", head.message());
    co_return false;
  }
  buffer_.erase(0, head_bytes);
  auto request = std::make_shared<Request>(std::move(head->request));
  ++served_;
  request->keep_alive = request->keep_alive && served_ < limits_.requests_a_connection;
  request->address = address_;
  Stopwatch watch;
  auto admission = dispatcher_.admit(*request, head->content_length);
  const Route* route = admission.route;
  std::optional<Response> response = std::move(admission.refusal);
  // A reporter over its rate comes again, and shall find its connection open.
  const bool drains =
      response && response->status == 429 && !head->expects_continue && head->content_length <= max_drained_bytes;
  const bool reads_body = (!response || drains) && head->content_length > 0;
  const Connections::BodyRoom room = reads_body
                                         ? connections_.room_for_body(head->content_length, limits_.body_bytes_in_all)
                                         : Connections::BodyRoom();
  if (reads_body && !room && !drains) {
    response = problem_response(Problem(503, "busy", "too many bodies are being read; send it again"), request->id);
  }
  if (response) {
    if (drains && room) {
      if (!co_await read_body(*request, head->content_length)) co_return false;
    } else if (head->content_length > 0) {
      request->keep_alive = false;  // its body was not read
    }
  } else {
    if (head->content_length > 0) {
      if (head->expects_continue) co_await write_all("HTTP/1.1 100 Continue\r\n\r\n", {});
      if (!co_await read_body(*request, head->content_length)) co_return false;
    }
    watch.lap_ms();  // a slow body is the client's
    response = dispatcher_.answer_now(*request, admission);
    if (!response) {
      gone_ = std::make_shared<std::atomic<bool>>(false);
      request->gone = gone_;
      response = co_await answer(request, std::move(admission), head->takes_interim);
      if (!response) {
        note_client_left(dispatcher_.access_log(), *request, route, watch.elapsed_ms());
        co_return false;
      }
    }
  }
  const AccessLine line(dispatcher_.access_log(), *request, route, *response, watch.elapsed_ms(), sent_bytes_);
  const Outgoing out = begin_write(*request, *response);
  if (!out.whole) co_await write_rest(*request, *response, out);
  co_return out.reusable && !finishing_;
}

asio::awaitable<bool> Session::read_body(Request& request, std::int64_t length) {
  const auto size = static_cast<std::size_t>(length);
  request.body = buffer_.substr(0, size);
  buffer_.erase(0, request.body.size());
  std::size_t have = request.body.size();
  request.body.resize(size);
  const auto start = std::chrono::steady_clock::now();
  error_code code;
  while (have < size && !code) {
    // A body that trickles in holds memory and a connection: it must also keep up a rate.
    const auto earned = limits_.body_grace + std::chrono::milliseconds(have * 1000 / limits_.body_bytes_a_second);
    const auto passed = std::chrono::steady_clock::now() - start;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::min<std::chrono::nanoseconds>(limits_.body, earned) - passed);
    set_deadline(std::max(left, std::chrono::milliseconds(0)));
    have += co_await transport_.async_read_some(asio::buffer(request.body.data() + have, size - have),
                                                asio::redirect_error(use_awaitable, code));
  }
  if (code && timed_out_) co_await refuse(408, "body_too_slow", "the request's body did not come in time");
  co_return !code;
}

asio::awaitable<std::optional<Response>> Session::answer(std::shared_ptr<const Request> request,
                                                         Dispatcher::Admission admission, bool takes_interim) {
  clear_deadline();
  Arrival<Response> arrival(socket_.get_executor());
  dispatcher_.dispatch(request, admission, Reply(arrival.sender()));
  const auto end = std::chrono::steady_clock::now() + limits_.answer;
  bool probed = false;
  // Most answers come before the first look. Ten thousand requests that wait cost ten thousand looks a second.
  for (auto pause = first_look; !co_await arrival.wait(pause); pause = std::min(2 * pause, most_pause)) {
    if (co_await client_left(takes_interim, probed)) co_return std::nullopt;
    if (std::chrono::steady_clock::now() < end) continue;
    spdlog::error("{} {} [{}]: no answer within {} s", request->method, printable(request->target), request->id,
                  std::chrono::duration_cast<std::chrono::seconds>(limits_.answer).count());
    *gone_ = true;
    co_return problem_response(Problem(503, "late", "the server did not finish this in time"), request->id);
  }
  co_return arrival.take();
}

short Session::events_now(short wanted) {
  pollfd state{socket_.native_handle(), wanted, 0};
  return poll(&state, 1, 0) > 0 ? state.revents : short{0};
}

bool Session::hung_up() {
  return !socket_.is_open() || (events_now(0) & (POLLERR | POLLHUP)) != 0;
}

asio::awaitable<bool> Session::client_left(bool takes_interim, bool& probed) {
  if (hung_up()) co_return true;
  // Reading would not do: requests sent ahead may lie before the end of the connection, and belong to the next turn.
  if ((events_now(POLLRDHUP) & POLLRDHUP) == 0) co_return false;
  // The client has ended its side: either it has closed the connection, or it sends nothing more and waits for the
  // answer. A closed one resets the connection when something comes, which the next look sees. HTTP/1.0 has nothing
  // that could be sent before the response.
  if (!takes_interim) co_return true;
  if (!std::exchange(probed, true)) co_await write_all("HTTP/1.1 102 Processing\r\n\r\n", {});
  clear_deadline();
  co_return false;
}

}  // namespace babelring::http

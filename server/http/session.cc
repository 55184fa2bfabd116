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

#include "base/log.h"
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

constexpr std::chrono::milliseconds moment(500);          // for each step of closing
constexpr std::chrono::milliseconds moment_to_stop(200);  // until the connection of a cancelled operation is closed
constexpr std::chrono::milliseconds first_look(50), max_pause(1000);  // whether the client still waits for an answer

}  // namespace

Session::Session(asio::ip::tcp::socket socket, asio::ssl::context* tls, std::string address, Place place,
                 const Shared& shared)
    : Connection(std::move(address), place),
      transport_(std::move(socket), tls),
      socket_(transport_.socket()),
      deadline_(socket_.get_executor()),
      ready_(socket_.get_executor()),
      dispatcher_(shared.dispatcher),
      limits_(shared.limits),
      connections_(shared.connections),
      bodies_(shared.bodies) {}

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
  overdue_ = false;
  if (due_ < wakes_) wait_until(due_);
}

void Session::clear_deadline() {
  due_ = std::chrono::steady_clock::time_point::max();
  overdue_ = false;
}

void Session::wait_until(std::chrono::steady_clock::time_point time) {
  wakes_ = time;
  deadline_.expires_at(time);
  deadline_.async_wait([weak = weak_from_this()](error_code code) {
    const auto self = weak.lock();
    if (code || !self) return;
    self->wakes_ = std::chrono::steady_clock::time_point::max();
    if (self->due_ <= std::chrono::steady_clock::now()) self->on_deadline();
    if (self->due_ < self->wakes_) self->wait_until(self->due_);
  });
}

void Session::on_deadline() {
  if (overdue_) {
    clear_deadline();
    close();
    return;
  }
  due_ = std::chrono::steady_clock::now() + moment_to_stop;
  overdue_ = timed_out_ = true;
  error_code ignored;
  socket_.cancel(ignored);
  ready_.cancel();
}

asio::awaitable<void> Session::run() {
  try {
    if (co_await secure()) {
      while (co_await serve_one()) {
      }
      if (events_) co_await write_events();
    }
    co_await linger_and_close();
  } catch (const boost::system::system_error&) {
    // The client left or stalled, or the server is stopping.
  } catch (const std::exception& failure) {
    spdlog::error("connection: {}", failure.what());
  }
  // Not left to the destructor: the subscriber's place is free at once.
  events_.reset();
  if (gone_) *gone_ = true;  // a handler or producer may still work for the last request
  deadline_.cancel();
  close();
}

asio::awaitable<bool> Session::secure() {
  if (!transport_.encrypted()) co_return true;
  set_deadline(place() == Place::reserve ? limits_.reserve_head : limits_.header);
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
    set_deadline(moment);
    co_await asio::async_write(socket_, asio::buffer(answer), use_awaitable);
  }
  co_return false;
}

asio::awaitable<void> Session::linger_and_close() {
  enter(Standing::Phase::closing);
  error_code code;
  set_deadline(moment);
  // Without a close_notify, the client would take the end of a body without a length for a broken connection.
  const bool all_said = transport_.encrypted() && socket_.is_open() && served_ > 0;
  if (all_said) co_await transport_.async_shutdown(asio::redirect_error(use_awaitable, code));
  // Closing while unread bytes arrive would reset the connection, and the last response with it.
  if (socket_.is_open()) socket_.shutdown(asio::ip::tcp::socket::shutdown_send, code);
  set_deadline(moment);
  std::int64_t drained = 0;
  const auto over = [&] { return code || timed_out_ || finishing_ || !socket_.is_open(); };
  for (code = {}; !over() && drained < max_drained_bytes;) {
    drained +=
        static_cast<std::int64_t>(co_await socket_.async_read_some(scrap(), asio::redirect_error(use_awaitable, code)));
  }
  if (over()) co_return;
  // It goes on sending. Its bytes are no longer taken, but it may use the rest of the time to read the response.
  interruptible_ = true;
  ready_.expires_at(due_);
  co_await ready_.async_wait(asio::redirect_error(use_awaitable, code));
}

asio::awaitable<void> Session::refuse(int status, std::string code, std::string detail) {
  note_malformed(dispatcher_.access_log(), address(), status);
  Response response = problem_response(Problem(status, std::move(code), detail), "");
  const auto& body = std::get<std::string>(response.body);
  const BodyFraming framing{static_cast<std::int64_t>(body.size()), false, true, strict_transport()};
  enter(Standing::Phase::closing);
  co_await write_all(response_head(response, framing, ""), body);
}

asio::awaitable<bool> Session::serve_one() {
  auto head = co_await next_head();
  if (!head) co_return false;
  auto request = std::make_shared<Request>(std::move(head->request));
  ++served_;
  const bool last = served_ >= limits_.requests_a_connection || place() == Place::reserve;
  request->keep_alive = request->keep_alive && !last;
  request->address = address();
  Stopwatch watch;
  auto admission = dispatcher_.admit(*request);
  const Route* route = admission.route;
  std::optional<Response> response = std::move(admission.refusal);
  std::optional<Connections::ReserveShare> share;
  if (!response && place() == Place::reserve) response = check_reserve(*request, admission, share);
  if (!response && request->caller && admission.reports()) set_reporter();
  if (request->content_length > 0 && !co_await take_body(*request, *head, response)) co_return false;
  if (!response) {
    watch.lap_ms();  // a slow body is the client's
    response = dispatcher_.answer_now(*request, admission);
  }
  if (!response) {
    gone_ = std::make_shared<std::atomic<bool>>(false);
    request->gone = gone_;
    response = co_await answer(request, std::move(admission), head->takes_interim);
    if (!response) {
      note_client_left(dispatcher_.access_log(), *request, route, watch.elapsed_ms());
      co_return false;
    }
  }
  const AccessLine line(dispatcher_.access_log(), *request, route, *response, watch.elapsed_ms(), sent_bytes_);
  const Outgoing out = begin_write(*request, *response);
  if (!out.whole) co_await write_rest(*request, *response, out);
  co_return out.reusable && !finishing_;
}

std::optional<Response> Session::check_reserve(const Request& request, const Admission::Decision& admission,
                                               std::optional<Connections::ReserveShare>& share) {
  const char* detail = "all connections are taken; only health checks and reports are answered now";
  if (admission.is_vital()) {
    if (admission.route->on_io_thread) return std::nullopt;
    share.emplace(connections_, client_of(request));
    if (*share) return std::nullopt;
    detail = "all connections are taken, and this client has too many of those that are kept for reports";
  }
  return problem_response(Problem(503, "busy", detail), request.id);
}

asio::awaitable<std::optional<Response>> Session::answer(std::shared_ptr<const Request> request,
                                                         Admission::Decision admission, bool takes_interim) {
  clear_deadline();
  Arrival<Response> arrival(socket_.get_executor());
  dispatcher_.dispatch(request, admission, Reply(arrival.sender()));
  const auto end = std::chrono::steady_clock::now() + limits_.answer;
  bool probed = false;
  // Most answers come before the first look. Ten thousand requests that wait cost ten thousand looks a second.
  for (auto pause = first_look; !co_await arrival.wait(pause); pause = std::min(2 * pause, max_pause)) {
    const bool left = co_await client_left(takes_interim, probed);
    if (left) *gone_ = true;
    if (left) co_return std::nullopt;
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

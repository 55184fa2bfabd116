#include "server/http/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/log.h"
#include "server/http/access_log.h"
#include "server/http/reply.h"
#include "server/http/response_writer.h"
#include "server/http/tls.h"

namespace babelring::http {
namespace {

namespace asio = boost::asio;
using asio::use_awaitable;
using boost::system::error_code;

constexpr std::chrono::milliseconds closing_step(500);                 // time for each step of closing
constexpr std::chrono::milliseconds first_check(50), max_pause(1000);  // between checks that the client still waits
constexpr int stream_send_buffer_bytes = 64 << 10;                     // of an event stream; Linux takes twice as much

}  // namespace

Session::Session(asio::ip::tcp::socket socket, asio::ssl::context* tls, std::string address, Place place,
                 const Shared& shared)
    : Connection(std::move(address), place),
      client_(std::move(socket), tls, shared.limits, activity()),
      dispatcher_(shared.dispatcher),
      limits_(shared.limits),
      connections_(shared.connections),
      reader_(client_, shared.limits, shared.bodies, place == Place::reserve),
      writer_(client_, shared.dispatcher, shared.limits.answer, tls != nullptr && shared.limits.strict_transport) {}

Session::~Session() {
  connections_.remove(this);
}

void Session::start() {
  client_.set_owner(weak_from_this());
  connections_.add(shared_from_this());
  asio::co_spawn(client_.socket().get_executor(), [self = shared_from_this()] { return self->run(); }, asio::detached);
}

void Session::finish() {
  asio::post(client_.socket().get_executor(), [self = shared_from_this()] { self->client_.finish(); });
}

void Session::abort() {
  asio::post(client_.socket().get_executor(), [self = shared_from_this()] { self->client_.close(); });
}

asio::awaitable<void> Session::run() {
  try {
    if (co_await secure()) {
      bool open = true;
      while (open) {  // GCC 12 evaluates both sides of `co_await … && co_await …`
        open = co_await reader_.wait_for_head();
        if (open) open = co_await serve_one();
      }
      co_await refuse_fault();
      if (events_) co_await send_events();
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
  client_.shut_down();
}

asio::awaitable<bool> Session::secure() {
  if (!client_.encrypted()) co_return true;
  client_.set_deadline(place() == Place::reserve ? limits_.reserve_head : limits_.header);
  client_.set_interruptible(true);
  error_code code;
  co_await client_.transport().async_handshake(asio::redirect_error(use_awaitable, code));
  client_.set_interruptible(false);
  if (!code) co_return true;
  if (spoke_plain_http(code)) {
    const Response response = problem_response(Problem(400, "tls_wanted", "this address speaks https"), "");
    const auto& body = std::get<std::string>(response.body);
    const BodyFraming framing{static_cast<std::int64_t>(body.size()), false, true};
    const std::string answer = response_head(response, framing, "") + body;
    client_.set_deadline(closing_step);
    co_await asio::async_write(client_.socket(), asio::buffer(answer), use_awaitable);
  }
  co_return false;
}

asio::awaitable<void> Session::linger_and_close() {
  activity().enter(Standing::Phase::closing);
  asio::ip::tcp::socket& socket = client_.socket();
  error_code code;
  client_.set_deadline(closing_step);
  // Without a close_notify, the client would take the end of a body without a length for a broken connection.
  const bool all_said = client_.encrypted() && socket.is_open() && served_ > 0;
  if (all_said) co_await client_.transport().async_shutdown(asio::redirect_error(use_awaitable, code));
  // Closing while unread bytes arrive would reset the connection, and the last response with it.
  if (socket.is_open()) socket.shutdown(asio::ip::tcp::socket::shutdown_send, code);
  client_.set_deadline(closing_step);
  std::int64_t drained = 0;
  const auto over = [&] { return code || client_.timed_out() || client_.finishing() || !socket.is_open(); };
  for (code = {}; !over() && drained < max_drained_bytes;) {
    drained += static_cast<std::int64_t>(
        co_await socket.async_read_some(scrap_buffer(), asio::redirect_error(use_awaitable, code)));
  }
  if (over()) co_return;
  // It goes on sending. Its bytes are no longer read, but it may use the rest of the time to read the response.
  client_.set_interruptible(true);
  co_await client_.sleep(client_.due() - ClientSocket::Clock::now());
}

asio::awaitable<void> Session::refuse_fault() {
  if (!reader_.fault()) co_return;
  log_malformed(dispatcher_.access_log(), address(), reader_.fault()->status());
  co_await writer_.refuse(*reader_.fault());
}

asio::awaitable<bool> Session::serve_one() {
  auto head = reader_.take_head();
  if (!head) co_return false;
  auto request = std::make_shared<Request>(std::move(head->message));
  ++served_;
  const bool last = served_ >= limits_.requests_a_connection || place() == Place::reserve;
  request->keep_alive = request->keep_alive && !last;
  request->address = address();
  Stopwatch watch;
  auto admission = dispatcher_.admit(*request);
  const Route* route = admission.route;
  std::optional<Response> response = std::move(admission.refusal);
  std::optional<Connections::ReservePlace> reserve_place;
  if (!response && place() == Place::reserve) response = check_reserve(*request, admission, reserve_place);
  if (!response && request->caller && admission.reports()) activity().set_reporter();
  if (request->content_length > 0 && !co_await take_body(*request, head->expects_continue, response)) co_return false;
  if (!response) {
    watch.lap_ms();  // a slow body is the client's
    response = dispatcher_.answer_now(*request, admission);
  }
  if (!response) {
    gone_ = std::make_shared<std::atomic<bool>>(false);
    request->gone = gone_;
    response = co_await answer(request, std::move(admission), head->takes_interim);
    if (!response) {
      log_client_left(dispatcher_.access_log(), *request, route, watch.elapsed_ms());
      co_return false;
    }
  }
  const AccessLine line(dispatcher_.access_log(), *request, route, *response, watch.elapsed_ms(), client_.sent_bytes());
  const ResponseWriter::Outgoing out = writer_.begin(*request, *response);
  if (!out.whole) co_await writer_.finish(*request, *response, out);
  if (auto* events = std::get_if<std::shared_ptr<EventSource>>(&response->body)) {
    events_ = std::move(*events);
    listener_ = request->caller;
  }
  co_return out.reusable && !client_.finishing();
}

asio::awaitable<bool> Session::take_body(Request& request, bool expects_continue, std::optional<Response>& refusal) {
  if (!refusal) {
    const auto body = co_await reader_.read_body(request, expects_continue);
    if (body != RequestReader::Body::no_room) co_return body == RequestReader::Body::complete;
    refusal = problem_response(Problem(503, "busy", "no memory is left for this body; send it again"), request.id);
  } else if (refusal->status == 429 && request.keep_alive && !expects_continue &&
             request.content_length <= max_drained_bytes) {
    // A rate-limited reporter will retry, and must find its connection open.
    co_return co_await reader_.discard_body(request.content_length);
  }
  request.keep_alive = false;  // the rest of the body is not read
  co_return true;
}

std::optional<Response> Session::check_reserve(const Request& request, const Admission::Decision& admission,
                                               std::optional<Connections::ReservePlace>& reserve_place) {
  const char* detail = "all connections are taken; only health checks and reports are answered now";
  if (admission.is_vital()) {
    if (admission.route->on_io_thread) return std::nullopt;
    reserve_place.emplace(connections_, memory_owner(request));
    if (*reserve_place) return std::nullopt;
    detail = "all connections are taken, and this client has too many of those that are kept for reports";
  }
  return problem_response(Problem(503, "busy", detail), request.id);
}

asio::awaitable<std::optional<Response>> Session::answer(std::shared_ptr<const Request> request,
                                                         Admission::Decision admission, bool takes_interim) {
  client_.clear_deadline();
  Arrival<Response> arrival(client_.socket().get_executor());
  dispatcher_.dispatch(request, admission, Reply(arrival.sender()));
  const auto end = std::chrono::steady_clock::now() + limits_.answer;
  bool probed = false;
  // Most responses come before the first check. Ten thousand waiting requests cost ten thousand checks a second.
  for (auto pause = first_check; !co_await arrival.wait(pause); pause = std::min(2 * pause, max_pause)) {
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

asio::awaitable<bool> Session::client_left(bool takes_interim, bool& probed) {
  if (client_.hung_up()) co_return true;
  // Reading would not tell: requests sent ahead may precede the end of the connection, and belong to the next turn.
  if (!client_.half_closed()) co_return false;
  // Either the client has closed the connection, or it sends nothing more and waits for the response. A closed one
  // resets the connection when something comes, which the next check sees. HTTP/1.0 has nothing that could be sent
  // before the response.
  if (!takes_interim) co_return true;
  if (!std::exchange(probed, true)) co_await client_.write("HTTP/1.1 102 Processing\r\n\r\n");
  client_.clear_deadline();
  co_return false;
}

asio::awaitable<void> Session::send_events() {
  asio::ip::tcp::socket& socket = client_.socket();
  // There may be thousands of streams: free the request's memory, and let no stream whose client reads nothing hold
  // megabytes of the kernel's memory, which would also have to be filled at once.
  reader_.free_buffer();
  error_code ignored;
  socket.set_option(asio::socket_base::send_buffer_size(stream_send_buffer_bytes), ignored);
  events_->on_ready([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    asio::post(self->client_.socket().get_executor(), [self] {
      self->woken_ = true;
      self->client_.wake();
    });
  });
  // A subscriber sends nothing more: what arrives now is the end of the connection, and makes room for another one.
  socket.async_wait(asio::ip::tcp::socket::wait_read, [weak = weak_from_this()](error_code) {
    const auto self = weak.lock();
    if (!self) return;
    self->reader_left_ = true;
    self->client_.wake();
  });
  auto checked = ClientSocket::Clock::now();
  while (socket.is_open() && !client_.finishing() && !reader_left_) {
    // The revocation of a token ends its streams within a heartbeat.
    if (const auto now = ClientSocket::Clock::now(); now - checked >= limits_.heartbeat) {
      if (!dispatcher_.still_holds(listener_.get())) co_return;
      checked = now;
    }
    woken_ = false;
    if (const EventSource::Frames frames = events_->take(); frames.size() > 0) {
      const std::size_t sent = client_.send_now(frames.text, frames.tail());
      const std::size_t in_text = std::min(sent, frames.text.size());
      if (sent < frames.size()) {
        co_await client_.write(std::string_view(frames.text).substr(in_text), frames.tail().substr(sent - in_text));
      }
      // Other connections have their turn before the next frames.
      if (frames.more) co_await asio::post(socket.get_executor(), use_awaitable);
      continue;
    }
    if (events_->ended()) co_return;
    client_.clear_deadline();
    client_.set_interruptible(true);
    const bool quiet = !woken_ && co_await client_.sleep(limits_.heartbeat);
    client_.set_interruptible(false);
    if (quiet && !woken_) co_await client_.write(":\n\n");
  }
}

}  // namespace babelring::http

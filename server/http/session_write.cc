#include <sys/sendfile.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <exception>
#include <utility>

#include "server/http/arrival.h"
#include "server/http/response_head.h"
#include "server/http/session.h"

namespace babelring::http {
namespace {

using asio::use_awaitable;
using boost::system::error_code;

constexpr int stream_send_buffer_bytes = 64 << 10;  // of an event stream; Linux takes twice as much

std::string_view text_of(const Response& response) {
  if (const auto* text = std::get_if<std::string>(&response.body)) return *text;
  const auto* view = std::get_if<std::string_view>(&response.body);
  return view == nullptr ? std::string_view() : *view;
}

BodyFraming framing_of(const Request& request, const Response& response) {
  BodyFraming framing;
  framing.close = !request.keep_alive;
  if (const auto* text = std::get_if<std::string>(&response.body)) {
    framing.length = static_cast<std::int64_t>(text->size());
  } else if (const auto* view = std::get_if<std::string_view>(&response.body)) {
    framing.length = static_cast<std::int64_t>(view->size());
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

Session::Outgoing Session::begin_write(const Request& request, Response& response) {
  BodyFraming framing = framing_of(request, response);
  framing.strict_transport = strict_transport();
  for (const auto& [name, value] : request.answer_headers) response.set(name, value);
  const bool bodiless = request.method == "HEAD" || response.status == 304 || response.status == 204;
  if (bodiless) response.body = std::string();
  Outgoing out{response_head(response, framing, request.id), text_of(response), 0, false, !framing.close};
  out.sent = send_now(out.head, out.text);
  const bool text =
      std::holds_alternative<std::string>(response.body) || std::holds_alternative<std::string_view>(response.body);
  out.whole = text && out.sent == out.head.size() + out.text.size();
  return out;
}

asio::awaitable<void> Session::write_rest(const Request& request, Response& response, const Outgoing& out) {
  const std::size_t in_head = std::min(out.sent, out.head.size());
  co_await write_all(std::string_view(out.head).substr(in_head), out.text.substr(out.sent - in_head));
  if (const auto* slice = std::get_if<FileSlice>(&response.body)) co_await write_file(*slice);
  if (const auto* composite = std::get_if<CompositeBody>(&response.body)) {
    for (const auto& part : composite->parts) {
      const auto* text = std::get_if<std::string>(&part);
      if (text != nullptr) co_await write_all(*text, {});
      if (text == nullptr) co_await write_file(std::get<FileSlice>(part));
    }
  }
  if (auto* stream = std::get_if<std::shared_ptr<BodyStream>>(&response.body)) {
    co_await write_stream(request, *stream);
  }
  if (auto* events = std::get_if<std::shared_ptr<EventSource>>(&response.body)) {
    events_ = std::move(*events);
    listener_ = request.caller;
  }
}

std::size_t Session::send_now(std::string_view first, std::string_view second) {
  if (transport_.encrypted()) return 0;
  error_code code;
  if (!socket_.non_blocking()) socket_.non_blocking(true);
  const std::array<asio::const_buffer, 2> buffers = {asio::buffer(first), asio::buffer(second)};
  const std::size_t sent = socket_.write_some(buffers, code);
  if (code && code != asio::error::would_block && code != asio::error::try_again) {
    throw boost::system::system_error(code);
  }
  sent_bytes_ += static_cast<std::int64_t>(sent);
  return sent;
}

void Session::begin_sending() {
  taken_ = 0;
  set_deadline(phase() == Standing::Phase::closing ? limits_.closing_write : limits_.write_stall);
}

void Session::note_taken(std::size_t bytes) {
  taken_ += bytes;
  sent_bytes_ += static_cast<std::int64_t>(bytes);
  const auto due = static_cast<std::size_t>(limits_.write_stall.count()) * limits_.write_bytes_a_second / 1000;
  if (taken_ >= due) begin_sending();
}

asio::awaitable<void> Session::write_all(std::string_view first, std::string_view second) {
  std::array<asio::const_buffer, 2> buffers = {asio::buffer(first), asio::buffer(second)};
  const Standing::Phase before = phase();
  begin_sending();
  while (asio::buffer_size(buffers) > 0) {
    if (timed_out_) throw boost::system::system_error(asio::error::timed_out);
    if (before != Standing::Phase::closing) enter(Standing::Phase::stalled);
    std::size_t sent = co_await transport_.async_write_some(buffers, use_awaitable);
    note_taken(sent);
    for (auto& buffer : buffers) {
      const std::size_t taken = std::min(sent, buffer.size());
      buffer += taken;
      sent -= taken;
    }
  }
  return_to(before);
}

asio::awaitable<void> Session::write_encrypted(const FileSlice& slice) {
  std::string piece(std::size_t{64} << 10, '\0');
  for (std::int64_t at = 0; at < slice.length;) {
    const auto want = static_cast<std::size_t>(std::min<std::int64_t>(slice.length - at, std::ssize(piece)));
    const ssize_t have = pread(slice.file.get(), piece.data(), want, slice.offset + at);
    if (have < 0 && errno == EINTR) continue;
    // The file has become shorter or cannot be read, so the announced length cannot be kept.
    if (have <= 0) throw boost::system::system_error(asio::error::eof);
    co_await write_all(std::string_view(piece).substr(0, static_cast<std::size_t>(have)), {});
    at += have;
  }
}

asio::awaitable<void> Session::write_file(const FileSlice& slice) {
  if (transport_.encrypted()) {
    co_await write_encrypted(slice);
    co_return;
  }
  // Then it is the turn of other connections. With larger pieces a client that throws the bytes away sleeps more often,
  // and waking it is the dearest part of a download (docs/performance.md).
  constexpr std::int64_t max_at_once = std::int64_t{128} << 10;
  socket_.native_non_blocking(true);
  off_t offset = slice.offset;
  std::int64_t left = slice.length;
  begin_sending();
  while (left > 0) {
    const std::int64_t want = std::min(left, max_at_once);
    const ssize_t sent = sendfile(socket_.native_handle(), slice.file.get(), &offset, static_cast<std::size_t>(want));
    // The file has become shorter, so the announced length cannot be kept.
    if (sent == 0) throw boost::system::system_error(asio::error::eof);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      throw boost::system::system_error(errno, boost::system::system_category());
    }
    if (sent > 0) {
      left -= sent;
      note_taken(static_cast<std::size_t>(sent));
    }
    if (sent == want) {
      if (left > 0) co_await asio::post(socket_.get_executor(), use_awaitable);
      continue;
    }
    // The socket is full. Trying again at once would send little for each system call.
    enter(Standing::Phase::stalled);
    co_await socket_.async_wait(asio::ip::tcp::socket::wait_write, use_awaitable);
    enter(Standing::Phase::working);
    if (timed_out_) throw boost::system::system_error(asio::error::timed_out);
  }
}

asio::awaitable<std::string> Session::next_chunk(const Request& request, std::shared_ptr<BodyStream> stream) {
  struct Chunk {
    std::string text;
    std::exception_ptr failure;
  };
  Arrival<Chunk> arrival(socket_.get_executor());
  dispatcher_.run(request, [send = arrival.sender(), stream = std::move(stream)] {
    Chunk chunk;
    try {
      chunk.text = stream->next();
    } catch (...) {
      chunk.failure = std::current_exception();
    }
    send(std::move(chunk));
  });
  const auto end = std::chrono::steady_clock::now() + limits_.answer;
  while (!co_await arrival.wait(std::chrono::seconds(1))) {
    const bool late = std::chrono::steady_clock::now() >= end;
    if (late || hung_up()) throw boost::system::system_error(asio::error::timed_out);  // breaks the body off
  }
  Chunk chunk = arrival.take();
  if (chunk.failure) std::rethrow_exception(chunk.failure);
  co_return std::move(chunk.text);
}

asio::awaitable<void> Session::write_stream(const Request& request, std::shared_ptr<BodyStream> stream) {
  const bool chunked = request.keep_alive;
  for (;;) {
    clear_deadline();
    const std::string chunk = co_await next_chunk(request, stream);
    if (chunk.empty()) break;
    if (!chunked) {
      co_await write_all(chunk, {});
      continue;
    }
    const std::string size_line = fmt::format("{:x}\r\n", chunk.size());
    co_await write_all(size_line, chunk);
    co_await write_all("\r\n", {});
  }
  if (chunked) co_await write_all("0\r\n\r\n", {});
}

asio::awaitable<void> Session::write_events() {
  // There may be thousands of streams: free what the request needed, and let none that takes nothing hold megabytes
  // of the kernel's memory, which would also have to be filled at once.
  buffer_ = std::string();
  error_code ignored;
  socket_.set_option(asio::socket_base::send_buffer_size(stream_send_buffer_bytes), ignored);
  events_->on_ready([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    asio::post(self->socket_.get_executor(), [self] {
      self->woken_ = true;
      self->ready_.cancel();
    });
  });
  // A subscriber sends nothing more: what arrives now is the end of the connection, and makes room for another one.
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [weak = weak_from_this()](error_code) {
    const auto self = weak.lock();
    if (!self) return;
    self->reader_left_ = true;
    self->ready_.cancel();
  });
  auto checked = std::chrono::steady_clock::now();
  while (socket_.is_open() && !finishing_ && !reader_left_) {
    // The revocation of a token ends its streams within a heartbeat.
    if (const auto now = std::chrono::steady_clock::now(); now - checked >= limits_.heartbeat) {
      if (!dispatcher_.still_holds(listener_.get())) co_return;
      checked = now;
    }
    woken_ = false;
    if (const EventSource::Frames frames = events_->take(); frames.size() > 0) {
      const std::size_t sent = send_now(frames.text, frames.tail());
      const std::size_t in_text = std::min(sent, frames.text.size());
      if (sent < frames.size()) {
        co_await write_all(std::string_view(frames.text).substr(in_text), frames.tail().substr(sent - in_text));
      }
      // Then it is the turn of other connections.
      if (frames.more) co_await asio::post(socket_.get_executor(), use_awaitable);
      continue;
    }
    clear_deadline();
    interruptible_ = true;
    ready_.expires_after(limits_.heartbeat);
    error_code code;
    if (!woken_) co_await ready_.async_wait(asio::redirect_error(use_awaitable, code));
    interruptible_ = false;
    if (!code && !woken_) co_await write_all(":\n\n", {});
  }
}

}  // namespace babelring::http

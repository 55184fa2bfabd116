#include "server/http/client_socket.h"

#include <poll.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <string>
#include <utility>

namespace babelring::http {
namespace {

namespace asio = boost::asio;
using asio::use_awaitable;
using boost::system::error_code;
using boost::system::system_error;

constexpr std::chrono::milliseconds moment_to_stop(200);  // until the connection of a cancelled operation is closed

}  // namespace

asio::mutable_buffer scrap_buffer() {
  thread_local std::array<char, std::size_t{64} << 10> bytes;
  return asio::buffer(bytes);
}

ClientSocket::ClientSocket(Transport::Socket socket, asio::ssl::context* tls, const Limits& limits, Activity& activity)
    : transport_(std::move(socket), tls),
      socket_(transport_.socket()),
      limits_(limits),
      activity_(activity),
      deadline_(socket_.get_executor()),
      sleep_(socket_.get_executor()) {}

void ClientSocket::set_deadline(std::chrono::milliseconds limit) {
  due_ = Clock::now() + limit;
  timed_out_ = false;
  overdue_ = false;
  if (due_ < wakes_) wait_until(due_);  // a timer that fires too early is set again
}

void ClientSocket::clear_deadline() {
  due_ = Clock::time_point::max();
  overdue_ = false;
}

void ClientSocket::wait_until(Clock::time_point time) {
  wakes_ = time;
  deadline_.expires_at(time);
  deadline_.async_wait([this, weak = owner_](error_code code) {
    const auto owner = weak.lock();
    if (code || !owner) return;
    wakes_ = Clock::time_point::max();
    if (due_ <= Clock::now()) on_deadline();
    if (due_ < wakes_) wait_until(due_);
  });
}

void ClientSocket::on_deadline() {
  if (overdue_) {
    clear_deadline();
    close();
    return;
  }
  due_ = Clock::now() + moment_to_stop;
  overdue_ = timed_out_ = true;
  error_code ignored;
  socket_.cancel(ignored);
  sleep_.cancel();
}

void ClientSocket::finish() {
  finishing_ = true;
  if (interruptible_) close();
}

void ClientSocket::close() {
  error_code ignored;
  socket_.close(ignored);
  sleep_.cancel();
}

void ClientSocket::shut_down() {
  deadline_.cancel();
  close();
}

asio::awaitable<bool> ClientSocket::sleep(Clock::duration limit) {
  sleep_.expires_after(limit);
  error_code code;
  co_await sleep_.async_wait(asio::redirect_error(use_awaitable, code));
  co_return !code;
}

short ClientSocket::poll_events(short wanted) {
  pollfd state{socket_.native_handle(), wanted, 0};
  return poll(&state, 1, 0) > 0 ? state.revents : short{0};
}

bool ClientSocket::hung_up() {
  return !socket_.is_open() || (poll_events(0) & (POLLERR | POLLHUP)) != 0;
}

bool ClientSocket::half_closed() {
  return (poll_events(POLLRDHUP) & POLLRDHUP) != 0;
}

std::size_t ClientSocket::send_now(std::string_view first, std::string_view second) {
  if (transport_.encrypted()) return 0;
  error_code code;
  if (!socket_.non_blocking()) socket_.non_blocking(true);
  const std::array<asio::const_buffer, 2> buffers = {asio::buffer(first), asio::buffer(second)};
  const std::size_t sent = socket_.write_some(buffers, code);
  if (code && code != asio::error::would_block && code != asio::error::try_again) throw system_error(code);
  sent_bytes_ += static_cast<std::int64_t>(sent);
  return sent;
}

void ClientSocket::begin_sending() {
  taken_ = 0;
  set_deadline(activity_.phase() == Standing::Phase::closing ? limits_.closing_write : limits_.write_stall);
}

void ClientSocket::count_sent(std::size_t bytes) {
  taken_ += bytes;
  sent_bytes_ += static_cast<std::int64_t>(bytes);
  const auto due = static_cast<std::size_t>(limits_.write_stall.count()) * limits_.write_bytes_a_second / 1000;
  if (taken_ >= due) begin_sending();
}

asio::awaitable<void> ClientSocket::write(std::string_view first, std::string_view second) {
  std::array<asio::const_buffer, 2> buffers = {asio::buffer(first), asio::buffer(second)};
  const Standing::Phase before = activity_.phase();
  begin_sending();
  while (asio::buffer_size(buffers) > 0) {
    if (timed_out_) throw system_error(asio::error::timed_out);
    if (before != Standing::Phase::closing) activity_.enter(Standing::Phase::stalled);
    std::size_t sent = co_await transport_.async_write_some(buffers, use_awaitable);
    count_sent(sent);
    for (auto& buffer : buffers) {
      const std::size_t taken = std::min(sent, buffer.size());
      buffer += taken;
      sent -= taken;
    }
  }
  activity_.return_to(before);
}

asio::awaitable<void> ClientSocket::write_encrypted(const FileSlice& slice) {
  std::string chunk(std::size_t{64} << 10, '\0');
  for (std::int64_t at = 0; at < slice.length;) {
    const auto want = static_cast<std::size_t>(std::min<std::int64_t>(slice.length - at, std::ssize(chunk)));
    const ssize_t have = pread(slice.file.get(), chunk.data(), want, slice.offset + at);
    if (have < 0 && errno == EINTR) continue;
    // The file has become shorter or cannot be read, so the announced length cannot be kept.
    if (have <= 0) throw system_error(asio::error::eof);
    co_await write(std::string_view(chunk).substr(0, static_cast<std::size_t>(have)));
    at += have;
  }
}

asio::awaitable<void> ClientSocket::write(const FileSlice& slice) {
  if (transport_.encrypted()) {
    co_await write_encrypted(slice);
    co_return;
  }
  // After each chunk other connections have their turn. With larger chunks a client that drops the bytes sleeps more
  // often, and waking it is the most expensive part of a download (docs/performance.md).
  constexpr std::int64_t max_at_once = std::int64_t{128} << 10;
  socket_.native_non_blocking(true);
  off_t offset = slice.offset;
  std::int64_t left = slice.length;
  begin_sending();
  while (left > 0) {
    const std::int64_t want = std::min(left, max_at_once);
    const ssize_t sent = sendfile(socket_.native_handle(), slice.file.get(), &offset, static_cast<std::size_t>(want));
    // The file has become shorter, so the announced length cannot be kept.
    if (sent == 0) throw system_error(asio::error::eof);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) throw system_error(errno, boost::system::system_category());
    if (sent > 0) {
      left -= sent;
      count_sent(static_cast<std::size_t>(sent));
    }
    if (sent == want) {
      if (left > 0) co_await asio::post(socket_.get_executor(), use_awaitable);
      continue;
    }
    // The socket is full. Trying again at once would send little for each system call.
    activity_.enter(Standing::Phase::stalled);
    co_await socket_.async_wait(Transport::Socket::wait_write, use_awaitable);
    activity_.enter(Standing::Phase::working);
    if (timed_out_) throw system_error(asio::error::timed_out);
  }
}

}  // namespace babelring::http

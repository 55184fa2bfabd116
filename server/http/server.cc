#include "server/http/server.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "server/http/connections.h"
#include "server/http/session.h"
#include "server/http/tls.h"

namespace babelring::http {

void Connections::add(const std::shared_ptr<Session>& session) {
  const std::lock_guard lock(mutex_);
  sessions_.emplace(session.get(), session);
  ++from_[session->address()];
}

void Connections::remove(Session* session) {
  const std::lock_guard lock(mutex_);
  if (sessions_.erase(session) > 0) {
    const auto found = from_.find(session->address());
    if (--found->second == 0) from_.erase(found);
  }
  changed_.notify_all();  // with the lock: who waits for the last one may destroy this right after
}

std::size_t Connections::count() const {
  const std::lock_guard lock(mutex_);
  return sessions_.size();
}

std::size_t Connections::count_from(const std::string& address) const {
  const std::lock_guard lock(mutex_);
  const auto found = from_.find(address);
  return found == from_.end() ? 0 : found->second;
}

Connections::BodyRoom Connections::room_for_body(std::int64_t bytes, std::int64_t most_in_all) {
  if (body_bytes_.fetch_add(bytes) + bytes <= most_in_all) return {body_bytes_, bytes};
  body_bytes_.fetch_sub(bytes);
  return {};
}

std::vector<std::shared_ptr<Session>> Connections::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Session>> sessions;
  for (const auto& [pointer, weak] : sessions_) {
    if (auto session = weak.lock()) sessions.push_back(std::move(session));
  }
  return sessions;
}

bool Connections::wait_empty(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return sessions_.empty(); });
}

namespace {

/// Leaves 256 descriptors for the database, files and the unexpected. Takes what the system lets us have.
std::size_t connection_cap(std::size_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, wanted + 256));
  setrlimit(RLIMIT_NOFILE, &limit);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  const auto descriptors = static_cast<std::size_t>(limit.rlim_cur);
  return std::min(wanted, descriptors > 512 ? descriptors - 256 : descriptors / 2);
}

std::string address_of(const auto& socket) {
  boost::system::error_code gone;
  const auto peer = socket.remote_endpoint(gone);
  return gone ? std::string() : peer.address().to_string();
}

asio::ip::tcp::acceptor listen_on(asio::io_context& context, const Server::Options& options) {
  try {
    const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(options.address), options.port);
    asio::ip::tcp::acceptor acceptor(context);
    acceptor.open(endpoint.protocol());
    acceptor.set_option(asio::socket_base::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen();
    return acceptor;
  } catch (const boost::system::system_error& error) {
    fail("cannot listen on {}:{}: {}", options.address, options.port, error.code().message());
  }
}

}  // namespace

struct Server::Impl {
  /// A thread with connections of its own: what belongs to a connection is never touched by two threads at once, and
  /// none of them wakes another.
  struct Loop {
    asio::io_context context{1};
    // Without it the thread leaves as soon as nothing waits, and what stop() then asks of a session is never done.
    asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
    std::thread thread;
  };
  static std::vector<std::unique_ptr<Loop>> make_loops(std::size_t count) {
    std::vector<std::unique_ptr<Loop>> loops;
    for (std::size_t i = 0; i < std::max<std::size_t>(count, 1); ++i) loops.push_back(std::make_unique<Loop>());
    return loops;
  }

  explicit Impl(const Options& chosen)
      : options(chosen),
        cap(connection_cap(chosen.limits.connections)),
        loops(make_loops(chosen.io_threads)),
        acceptor(listen_on(loops.front()->context, chosen)),
        pause(loops.front()->context),
        tls(chosen.tls_certificate.empty() ? nullptr : make_tls_context(chosen.tls_certificate, chosen.tls_key)),
        handlers(chosen.handler_threads) {}

  asio::awaitable<void> accept_all() {
    for (std::size_t next = 0;; next = (next + 1) % loops.size()) {
      boost::system::error_code code;
      auto socket =
          co_await acceptor.async_accept(loops[next]->context, asio::redirect_error(asio::use_awaitable, code));
      if (code == asio::error::operation_aborted || !acceptor.is_open()) co_return;
      if (code || connections.count() >= cap) {
        // Out of descriptors, or full: dropping the socket closes it. Give others time to leave.
        if (code) spdlog::warn("accept: {}", code.message());
        pause.expires_after(std::chrono::milliseconds(code ? 100 : 1));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, code));
        continue;
      }
      try {
        begin_session(std::move(socket));
      } catch (const std::exception& failure) {  // such as no memory: others may still come
        spdlog::error("a connection could not be served: {}", failure.what());
      }
    }
  }

  void begin_session(asio::ip::tcp::socket socket) {
    std::string address = address_of(socket);
    const std::size_t most = options.limits.connections_an_address;
    if (most > 0 && !is_loopback(address) && connections.count_from(address) >= most) return;  // closes it
    boost::system::error_code ignored;
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    const auto session = std::make_shared<Session>(std::move(socket), tls.get(), std::move(address), *dispatcher,
                                                   options.limits, connections);
    session->start();
    if (stopping) session->finish();  // too late for stop() to have seen it
  }

  Options options;
  std::size_t cap;
  // What sessions refer to outlives the contexts, which own the last of them.
  std::optional<Dispatcher> dispatcher;
  Connections connections;
  std::atomic<bool> stopping = false;
  std::vector<std::unique_ptr<Loop>> loops;
  asio::ip::tcp::acceptor acceptor;  // this and pause: on the first loop's thread alone
  asio::steady_timer pause;
  std::unique_ptr<asio::ssl::context> tls;  // null: plain
  asio::thread_pool handlers;
  bool started = false;
};

Server::Server(const Options& options) : impl_(std::make_unique<Impl>(options)) {}

Server::~Server() {
  stop();
}

void Server::start(const std::function<Dispatcher(Dispatcher::Executor)>& make) {
  impl_->dispatcher.emplace(
      make([pool = &impl_->handlers](std::function<void()> task) { asio::post(*pool, std::move(task)); }));
  asio::co_spawn(
      impl_->loops.front()->context, [impl = impl_.get()] { return impl->accept_all(); }, asio::detached);
  for (const auto& loop : impl_->loops) {
    loop->thread = std::thread([context = &loop->context] { context->run(); });
  }
  impl_->started = true;
}

void Server::stop() {
  if (!std::exchange(impl_->started, false)) return;
  impl_->stopping = true;
  asio::post(impl_->loops.front()->context, [impl = impl_.get()] {
    boost::system::error_code ignored;
    impl->acceptor.close(ignored);
    impl->pause.cancel();
  });
  for (const auto& session : impl_->connections.all()) session->finish();
  if (!impl_->connections.wait_empty(impl_->options.limits.drain)) {
    spdlog::warn("{} connections did not end in time", impl_->connections.count());
    for (const auto& session : impl_->connections.all()) session->abort();
    impl_->connections.wait_empty(std::chrono::seconds(2));
  }
  impl_->handlers.join();
  for (const auto& loop : impl_->loops) loop->context.stop();
  for (const auto& loop : impl_->loops) loop->thread.join();
}

std::uint16_t Server::port() const {
  return impl_->acceptor.local_endpoint().port();
}

std::size_t Server::connections() const {
  return impl_->connections.count();
}

}  // namespace babelring::http

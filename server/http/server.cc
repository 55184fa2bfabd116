#include "server/http/server.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/replaceable.h"
#include "base/secret.h"
#include "server/http/connections.h"
#include "server/http/limits.h"
#include "server/http/session.h"
#include "server/http/tls.h"

namespace babelring::http {
namespace {

std::string_view view_of(spdlog::string_view_t text) {
  return {text.data(), text.size()};
}

/// Formats the message text, escaped and with tokens redacted.
class SafeText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& out) override {
    const std::string text = printable(redact(view_of(message.payload)));
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<SafeText>(); }
};

class JsonFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto time_ms = std::chrono::duration_cast<std::chrono::milliseconds>(message.time.time_since_epoch()).count();
    const std::string line = to_text(json::object{
                                 {"time", format_rfc3339(time_ms)},
                                 {"level", view_of(spdlog::level::to_string_view(message.level))},
                                 {"text", printable(redact(view_of(message.payload)))},
                             }) +
                             '\n';
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

}  // namespace

std::unique_ptr<spdlog::formatter> log_formatter(LogFormat format) {
  if (format == LogFormat::json) return std::make_unique<JsonFormatter>();
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<SafeText>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$: %*");
  return formatter;
}

void set_log_format(LogFormat format) {
  spdlog::default_logger()->set_formatter(log_formatter(format));
}

namespace {

namespace asio = boost::asio;

/// How many connections there may be, up to `wanted`: raises the limit on open files as far as the system allows, and
/// leaves 256 descriptors for the database, files and the unexpected.
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
  /// A thread with its own connections, so that two threads never touch the same connection or wake each other.
  struct Loop {
    asio::io_context context{1};
    // Without it the thread ends as soon as nothing is pending, and what stop() posts to a session never runs.
    asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
    std::thread thread;
  };
  static std::vector<std::unique_ptr<Loop>> make_loops(std::size_t count) {
    std::vector<std::unique_ptr<Loop>> loops;
    for (std::size_t i = 0; i < std::max<std::size_t>(count, 1); ++i) loops.push_back(std::make_unique<Loop>());
    return loops;
  }

  static std::shared_ptr<asio::ssl::context> read_certificate(const std::filesystem::path& certificate,
                                                              const std::filesystem::path& key) {
    std::shared_ptr<asio::ssl::context> context = make_tls_context(certificate, key);
    if (const std::string warning = certificate_warning(*context); !warning.empty()) spdlog::warn("{}", warning);
    return context;
  }

  explicit Impl(const Options& chosen)
      : options(chosen),
        connections(Places::of(connection_cap(chosen.limits.connections), chosen.limits.connections_an_address)),
        bodies(chosen.limits.body_bytes_in_all),
        loops(make_loops(chosen.io_threads)),
        acceptor(listen_on(loops.front()->context, chosen)),
        pause(loops.front()->context),
        tls(chosen.tls_certificate.empty() ? nullptr : read_certificate(chosen.tls_certificate, chosen.tls_key)),
        lanes(std::make_shared<Lanes>(chosen.lanes)) {}

  asio::awaitable<void> accept_all() {
    boost::system::error_code code;
    acceptor.non_blocking(true);
    for (;;) {
      co_await acceptor.async_wait(acceptor.wait_read, asio::redirect_error(asio::use_awaitable, code));
      if (code == asio::error::operation_aborted || !acceptor.is_open()) co_return;
      const std::chrono::milliseconds wait = accept_waiting();
      if (wait == std::chrono::milliseconds::zero()) continue;
      pause.expires_after(wait);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, code));
    }
  }

  /// Accepts connections that wait, some at a time, as between two turns of a busy loop many come: one a turn would
  /// leave a health check behind thousands. Returns for how long to give others time to leave.
  std::chrono::milliseconds accept_waiting() {
    using std::chrono::milliseconds;
    constexpr int at_a_time = 256;
    milliseconds wait{0};
    for (int i = 0; i < at_a_time; ++i, next_loop = (next_loop + 1) % loops.size()) {
      boost::system::error_code code;
      asio::ip::tcp::socket socket(loops[next_loop]->context);
      acceptor.accept(socket, code);
      if (code == asio::error::would_block || code == asio::error::operation_aborted || !acceptor.is_open()) break;
      if (code == asio::error::connection_aborted) continue;  // the client has left
      try {
        if (code) {  // out of descriptors
          spdlog::warn("accept: {}", code.message());
          return milliseconds(100);
        }
        if (!begin_session(std::move(socket))) wait = milliseconds(1);  // no place: dropping the socket has closed it
      } catch (const std::exception& failure) {                         // out of memory, say: go on accepting
        spdlog::error("a connection could not be served: {}", failure.what());
      }
    }
    return wait;
  }

  /// False if there is no place for the connection.
  bool begin_session(asio::ip::tcp::socket socket) {
    std::string address = address_of(socket);
    const Place place = connections.find_place(address, !is_loopback(address));
    if (place == Place::none) return false;
    boost::system::error_code ignored;
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    // Ends connections whose client has vanished, also those on which the server only sends now and then.
    const auto patience = static_cast<unsigned>(options.limits.write_stall.count());
    setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
    const Session::Shared shared{*dispatcher, options.limits, connections, bodies};
    const auto context = tls.get();  // the session's stream shares its certificate
    const auto session = std::make_shared<Session>(std::move(socket), context.get(), std::move(address), place, shared);
    session->start();
    if (stopping) session->finish();  // stop() may have missed it
    return true;
  }

  Options options;
  // Sessions refer to the next three, which must therefore outlive the loops: the contexts own the last sessions.
  std::optional<Dispatcher> dispatcher;
  Connections connections;
  BodyMemory bodies;
  std::atomic<bool> stopping = false;
  std::vector<std::unique_ptr<Loop>> loops;
  asio::ip::tcp::acceptor acceptor;  // this and the next two: used only on the first loop's thread
  asio::steady_timer pause;
  std::size_t next_loop = 0;
  Replaceable<asio::ssl::context> tls;  // null: plain
  std::shared_ptr<Lanes> lanes;
  bool started = false;
};

Server::Server(const Options& options) : impl_(std::make_unique<Impl>(options)) {}

Server::~Server() {
  stop();
}

void Server::start(const std::function<Dispatcher(Dispatcher::Executor)>& make) {
  const std::size_t wanted = impl_->options.limits.connections;
  if (const std::size_t cap = connection_cap(wanted); cap < wanted) {
    spdlog::warn(
        "the limit on open files allows {} connections instead of {}: raise it to {} (LimitNOFILE, ulimit -Hn)", cap,
        wanted, wanted + 256);
  }
  impl_->dispatcher.emplace(make(impl_->lanes));
  asio::co_spawn(impl_->loops.front()->context, [impl = impl_.get()] { return impl->accept_all(); }, asio::detached);
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
  impl_->lanes->stop();
  for (const auto& loop : impl_->loops) loop->context.stop();
  for (const auto& loop : impl_->loops) loop->thread.join();
}

std::string Server::use_certificate(const std::filesystem::path& certificate, const std::filesystem::path& key) {
  const std::shared_ptr<asio::ssl::context> context = Impl::read_certificate(certificate, key);
  impl_->tls.set(context);
  return describe_certificate(*context);
}

void Server::allow(AllowedNames names) {
  impl_->dispatcher->allow(std::move(names));
}

std::shared_ptr<const Lanes> Server::lanes() const {
  return impl_->lanes;
}

std::uint16_t Server::port() const {
  return impl_->acceptor.local_endpoint().port();
}

std::size_t Server::connections() const {
  return impl_->connections.count();
}

}  // namespace babelring::http

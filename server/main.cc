#include <spdlog/spdlog.h>

#include <csignal>
#include <iostream>

#include "nmt/base/atomic_file.h"
#include "nmt/base/failure.h"
#include "nmt/base/log.h"
#include "server/api/alert_watch.h"
#include "server/api/service.h"
#include "server/http/server.h"
#include "server/page/page.h"
#include "server/server_options.h"

namespace babelring {
namespace {

/// SIGINT and SIGTERM, for this thread and all it starts, are held until somebody waits for them.
sigset_t hold_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a client that leaves is an error code, not our end
  return signals;
}

std::vector<std::filesystem::path> canonical_roots(const ServerOptions& options, const std::filesystem::path& data) {
  std::vector<std::filesystem::path> roots = {data};
  for (const auto& root : options.checkpoint_roots) {
    std::error_code error;
    auto canonical = std::filesystem::canonical(root, error);
    if (error) throw UsageFailure(fmt::format("--checkpoint-root {}: {}", root.string(), error.message()));
    roots.push_back(std::move(canonical));
  }
  return roots;
}

void announce(const ServerOptions& options, std::uint16_t port, const std::filesystem::path& data) {
  const bool v6 = options.address.find(':') != std::string::npos;
  const std::string address = fmt::format("http://{}{}{}:{}/", v6 ? "[" : "", options.address, v6 ? "]" : "", port);
  write_file_atomically(data / "address", address + "\n");
  std::cout << "babelring server listening on " << address << std::endl;
}

void run(const ServerOptions& options) {
  const sigset_t signals = hold_signals();
  store::Store store(options.data);
  api::EventHub events;
  api::Service service{store, events, canonical_roots(options, store.folder())};
  api::AlertWatch alerts(store, events, service.checkpoint_roots);
  service.alerts = &alerts;
  http::Server::Options http_options;
  http_options.address = options.address;
  http_options.port = options.port;
  http::Server server(http_options);
  server.start([&](http::Dispatcher::Executor executor) {
    return http::Dispatcher(api::make_router(service), http::StaticFiles(page_files(), options.page_folder),
                            options.hosts, std::move(executor));
  });
  announce(options, server.port(), store.folder());

  int received = 0;
  sigwait(&signals, &received);
  spdlog::info("{}: ending", received == SIGINT ? "SIGINT" : "SIGTERM");
  server.stop();
}

}  // namespace
}  // namespace babelring

int main(int argc, char** argv) {
  try {
    const auto options = babelring::ServerOptions::parse(argc, argv);
    if (!options) return 0;
    babelring::init_log("", options->log_level);
    babelring::run(*options);
    return 0;
  } catch (const babelring::UsageFailure& failure) {
    std::cerr << "server: " << failure.what() << '\n';
    return 2;
  } catch (const std::exception& failure) {
    std::cerr << "server: " << failure.what() << '\n';
    return 1;
  }
}

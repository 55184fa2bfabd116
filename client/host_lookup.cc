#include "client/host_lookup.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "base/failure.h"
#include "base/result.h"

namespace babelring {
namespace {

using boost::asio::ip::tcp;

HostLookup::Endpoints ask_system(const std::string& host, const std::string& port) {
  boost::asio::io_context context;
  HostLookup::Endpoints endpoints;
  boost::system::error_code error;
  for (const auto& entry : tcp::resolver(context).resolve(host, port, error)) endpoints.push_back(entry.endpoint());
  if (error) fail("{}", error.message());  // asio's exception would add a source location
  return endpoints;
}

}  // namespace

struct HostLookup::Shared {
  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  bool in_progress = false, cancelled = false;
  std::optional<Result<Endpoints>> answer;
};

HostLookup::HostLookup(std::string host, std::string port, Resolver resolver)
    : host_(std::move(host)),
      port_(std::move(port)),
      resolver_(resolver ? std::move(resolver) : ask_system),
      shared_(std::make_shared<Shared>()) {}

void HostLookup::start() {
  std::thread([shared = shared_, resolver = resolver_, host = host_, port = port_] {
    std::optional<Result<Endpoints>> answer;
    try {
      answer.emplace(resolver(host, port));
    } catch (const std::exception& error) {
      answer.emplace(Error{error.what()});
    }
    const std::lock_guard lock(shared->mutex);
    shared->answer = std::move(answer);
    shared->in_progress = false;
    shared->changed.notify_all();
  }).detach();
  shared_->in_progress = true;  // the thread resets it under the mutex, which we hold
}

Result<HostLookup::Endpoints> HostLookup::get(std::chrono::milliseconds timeout) {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->in_progress && !shared_->answer) start();
  shared_->changed.wait_for(lock, timeout, [&] { return shared_->answer || shared_->cancelled; });
  if (shared_->cancelled) return Error{"cancelled"};
  if (!shared_->answer) return Error{fmt::format("no result for '{}' within {} ms", host_, timeout.count())};
  return *std::exchange(shared_->answer, std::nullopt);
}

void HostLookup::cancel() {
  const std::lock_guard lock(shared_->mutex);
  shared_->cancelled = true;
  shared_->changed.notify_all();
}

}  // namespace babelring

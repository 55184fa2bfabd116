#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"

namespace babelring {

/// Resolves one host name with a timeout. The system resolver has no timeout and cannot be interrupted, so it runs on a
/// detached thread. A late result is kept for the next get().
class HostLookup {
 public:
  using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
  /// May block. Throws an exception whose message becomes the Error.
  using Resolver = std::function<Endpoints(const std::string& host, const std::string& port)>;

  /// An empty `resolver` means the system's.
  HostLookup(std::string host, std::string port, Resolver resolver = {});

  /// Returns the addresses. Starts a lookup unless an earlier one is in progress or has a late result. The Error is the
  /// resolver's message, a timeout, or a cancellation. Call from one thread at a time.
  Result<Endpoints> get(std::chrono::milliseconds timeout);

  /// Makes the current and all later calls of get() return an Error. Thread-safe.
  void cancel();

 private:
  struct Shared;
  void start();  // requires the mutex

  const std::string host_, port_;
  const Resolver resolver_;
  const std::shared_ptr<Shared> shared_;  // shared with the resolver thread
};

}  // namespace babelring

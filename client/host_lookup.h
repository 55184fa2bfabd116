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

/// Looks up one host name with a bound on the time it takes. The system's resolver has none and cannot be interrupted,
/// so it runs on a thread that is left behind when it takes too long; its answer, when it comes, is had by the next
/// get().
class HostLookup {
 public:
  using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
  /// May block. Throws what the error says.
  using Resolver = std::function<Endpoints(const std::string& host, const std::string& port)>;

  /// `resolver` empty: the system's.
  HostLookup(std::string host, std::string port, Resolver resolver = {});

  /// The addresses, asked anew unless an earlier question is still open or was answered too late. The Error says why
  /// there are none: the resolver's words, no answer within `timeout`, or cancel(). One thread at a time.
  Result<Endpoints> get(std::chrono::milliseconds timeout);

  /// From any thread: ends get() in progress, and every later one, with an Error.
  void cancel();

 private:
  struct Shared;
  void start();  // with the mutex held

  const std::string host_, port_;
  const Resolver resolver_;
  const std::shared_ptr<Shared> shared_;  // with the thread that asks
};

}  // namespace babelring

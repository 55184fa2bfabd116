#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace babelring {

/// One collective in progress, driven by the communication thread alone. Only give_up() may block; only it never throws
/// CommError.
class Collective {
 public:
  enum class Progress { none, some, done };

  virtual ~Collective() = default;
  /// Posts what can be posted before any peer has answered.
  virtual void begin() = 0;
  /// Makes what progress it can. Called until it returns done, never afterwards.
  virtual Progress advance() = 0;
  /// For messages: "all-reduce of 26.2 MB".
  virtual std::string name() const = 0;
  /// Bytes of payload, to bound how many run at once.
  virtual std::int64_t bytes() const = 0;
  /// The rank whose message it waits for; -1: any.
  virtual int waiting_for() const { return -1; }
  /// Whether peers ring this rank's bell when they advance it; if not, the communication thread has to poll.
  virtual bool rings() const { return false; }

  /// An error reported by its transport; empty: none. The collective then fails with this message, once the peers have
  /// been asked which of them is lost.
  virtual std::string trouble() const { return {}; }
  /// Called when nobody will wait for it any more: stops what may hang elsewhere.
  virtual void give_up() noexcept {}

  /// Keeps what it reads and writes alive: when the call that started a collective ends by an exception, MPI may still
  /// move data.
  void keep(std::shared_ptr<const void> memory) { memory_ = std::move(memory); }

 private:
  std::shared_ptr<const void> memory_;
};

}  // namespace babelring

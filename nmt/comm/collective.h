#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace babelring {

/// One collective in progress, driven by the communication thread alone. Every function may throw CommError, but for
/// give_up(); none but that blocks.
class Collective {
 public:
  enum class Progress { none, some, done };

  virtual ~Collective() = default;
  /// Posts what can be posted before any peer has answered.
  virtual void begin() = 0;
  /// Moves on as far as it goes. Called until it says done, never afterwards.
  virtual Progress advance() = 0;
  /// For messages: "all-reduce of 26.2 MB".
  virtual std::string name() const = 0;
  /// Bytes of payload, to bound how many run at once.
  virtual std::int64_t bytes() const = 0;
  /// The rank whose message it waits for; -1: any.
  virtual int waiting_for() const { return -1; }
  /// Whether a peer that brings it on rings this rank's bell; else the communication thread has to look again and
  /// again.
  virtual bool rings() const { return false; }

  /// What its transport has found wrong; empty: nothing. It fails by this, as soon as the peers have been asked which
  /// of them is lost.
  virtual std::string trouble() const { return {}; }
  /// Nothing will be waited for any more: stops what hangs elsewhere.
  virtual void give_up() noexcept {}

  /// Owns what it reads and writes for as long as it exists: a collective may outlive the call that started it, when
  /// that ends by an exception, and then MPI may still move data.
  void keep(std::shared_ptr<const void> memory) { memory_ = std::move(memory); }

 private:
  std::shared_ptr<const void> memory_;
};

}  // namespace babelring

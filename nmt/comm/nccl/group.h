#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "nmt/comm/nccl/functions.h"

namespace babelring {

/// A rank's membership in a group of GPUs (an ncclComm_t that never blocks). From any thread: NCCL allows one at a
/// time, so each call holds a lock. Destroyed without close(), it aborts what is in flight.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclFunctions& functions) : functions_(functions) {}
  ~NcclGroup() { abort(); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  enum class State { busy, ready, failed };
  /// Of the last operation; busy as well while another thread is inside NCCL. `why`: set when failed.
  State state(std::string& why);

  /// An id for all ranks of a new group. Empty, and `why` set, if there is none.
  static std::string make_id(const NcclFunctions& functions, std::string& why);
  /// Begins to join the group of that id, with the GPU that is the thread's current one; done when state() says ready.
  void join(const std::string& id, int rank, int ranks);
  /// Queues the sum over ranks, in place, of f32 or bf16 elements on the device. Queued when state() says ready.
  void all_reduce(void* data, std::size_t count, NcclType type, void* stream);

  /// Stops what runs on the device and leaves the group, whose state is failed from then on. May be called again.
  void abort() noexcept;
  /// Leaves the group in order; all ranks do, with nothing in flight. Aborts if that takes more than 5 s.
  void close();

 private:
  void note(int result, const char* call);
  std::string describe(int result) const;

  const NcclFunctions functions_;
  std::mutex mutex_;  // guards what follows
  NcclComm comm_ = nullptr;
  std::string failure_;
};

}  // namespace babelring

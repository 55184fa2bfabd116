#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "base/result.h"
#include "nmt/comm/nccl/functions.h"

namespace babelring {

/// A rank's nonblocking ncclComm_t. Thread-safe: NCCL allows one thread at a time, so each call holds a lock. The
/// destructor aborts operations in flight unless close() was called.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclFunctions& functions) : functions_(functions) {}
  ~NcclGroup() { abort(); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  enum class State { busy, ready };
  /// State of the last operation, or the error of the first one that failed. Also busy while another thread is inside
  /// NCCL.
  Result<State> state();

  /// Creates the id that all ranks of a new group pass to join().
  static Result<NcclUniqueId> make_id(const NcclFunctions& functions);
  /// Starts joining the group `id` with the calling thread's current GPU. Complete when state() is ready.
  void join(const NcclUniqueId& id, int rank, int ranks);
  /// Queues an in-place sum over ranks of f32 or bf16 elements on the device. Queued when state() is ready.
  void all_reduce(void* data, std::size_t count, NcclType type, void* stream);

  /// Aborts operations on the device and leaves the group. state() is an error afterwards. May be called repeatedly.
  void abort() noexcept;
  /// Leaves the group cleanly. All ranks must call it, with nothing in flight. Aborts if it takes more than 5 s.
  void close();

 private:
  void note(int result, const char* call);
  std::string describe(int result) const;

  const NcclFunctions functions_;
  std::mutex mutex_;  // guards the members below
  NcclComm comm_ = nullptr;
  std::string failure_;
};

}  // namespace babelring

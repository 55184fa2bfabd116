#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "nmt/comm/nccl/functions.h"

namespace babelring {

/// Memory at the same place of a tensor on every rank, filled with what ranks have of it.
struct NcclPart {
  static constexpr int of_all_ranks = -1;
  char* data = nullptr;
  std::size_t bytes = 0;
  /// The rank that has all `bytes`. of_all_ranks: each rank has `bytes`, one behind the other in the order of ranks.
  int from = of_all_ranks;
};

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

  /// Like all_reduce(), but of the sum each rank gets `count` elements, in the order of ranks.
  void reduce_scatter(void* data, std::size_t count, NcclType type, void* stream);
  /// Queues an in-place all-gather of these parts, the same on all ranks. Queued when state() is ready.
  void all_gather(const std::vector<NcclPart>& parts, void* stream);

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
  int rank_ = 0;
  std::string failure_;
};

}  // namespace babelring

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/buffer.h"
#include "nmt/core/shared_file.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A futex-based event count. Works across processes when placed in shared memory; all-zero bytes are a valid initial
/// state. Any number of threads may notify; only one may wait.
class EventCount {
 public:
  /// The current count. Read it before checking for work, then pass it to wait() if there was none; a notification in
  /// between is not missed.
  std::uint32_t count() const { return count_.load(); }
  /// Increments the count and wakes the waiting thread. Never blocks.
  void notify();
  /// Sleeps until the count differs from `seen`, or for `timeout`. May return early. Only one thread may wait.
  void wait(std::uint32_t seen, std::chrono::microseconds timeout);

 private:
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "the futex waits on the bare word");
  std::atomic<std::uint32_t> count_{0}, sleeping_{0};
};

/// A block of memory from Communicator::allocate(). Ownership is shared by the Buffers returned to the caller and by
/// the collectives in flight, so the memory lives as long as either uses it.
class CommMemory {
 public:
  CommMemory() = default;
  CommMemory(CommMemory&&) = default;
  virtual ~CommMemory() = default;
  virtual char* data() const = 0;
  virtual std::size_t bytes() const = 0;

  /// This rank's rounding error of the float at `value`, which lies in this memory; the errors of the floats after it
  /// follow. Zero at first. See GradientWire::int8.
  float* error_of(const float* value);
  void forget_errors() { errors_ = Buffer(); }

 private:
  Buffer errors_;  // as many bytes as this memory; empty before use
};

/// Returns a Buffer that shares ownership of `memory`.
Buffer owning_buffer(std::shared_ptr<CommMemory> memory);

/// Finds the memory block that contains a tensor. Not thread-safe.
class MemoryRegistry {
 public:
  /// Registers `memory` and returns owning_buffer(memory).
  Buffer add(const std::shared_ptr<CommMemory>& memory);
  /// The live block that contains `tensor`; null if there is none.
  std::shared_ptr<CommMemory> find(const Tensor& tensor) const;
  /// The block that contains contiguous f32; null for an empty tensor outside. Throws Failure that names the `call` for
  /// any other tensor.
  std::shared_ptr<CommMemory> of_floats(std::string_view call, const Tensor& tensor) const;
  void forget_errors() const;

 private:
  std::vector<std::weak_ptr<CommMemory>> known_;
};

/// Allocates memory private to this process.
std::shared_ptr<CommMemory> make_private_memory(std::size_t bytes);
/// The same, but pages take memory when they are first written.
std::shared_ptr<CommMemory> make_sparse_memory(std::size_t bytes);

/// One rank's view of a file with one part per rank, all of equal size. With a single part the memory is common to all
/// ranks, and every rank passes 0 as `rank`.
class SharedMemory final : public CommMemory {
 public:
  /// File size for `ranks` parts of `bytes` bytes each.
  static std::size_t file_bytes(std::size_t bytes, int ranks) {
    return stride(bytes) * static_cast<std::size_t>(ranks);
  }
  SharedMemory(std::shared_ptr<SharedFile> file, std::size_t bytes, int rank)
      : file_(std::move(file)), bytes_(bytes), rank_(rank) {}

  char* data() const override { return part(rank_); }
  std::size_t bytes() const override { return bytes_; }
  /// The address, in this process, of `rank`'s counterpart of `own`. `own` points into this rank's part.
  float* peer_of(float* own, int rank) const {
    return reinterpret_cast<float*>(part(rank) + (reinterpret_cast<char*>(own) - part(rank_)));
  }
  /// Calls SharedFile::reserve for this rank's part.
  bool reserve() { return file_->reserve(stride(bytes_) * static_cast<std::size_t>(rank_), stride(bytes_)); }
  /// The same for bytes [begin, end) of a part that all ranks have in common.
  bool reserve_range(std::size_t begin, std::size_t end) { return file_->reserve(begin, end - begin); }
  /// Reserves the caller's part of memory that `ranks` ranks have in common.
  bool reserve_share(int caller, int ranks) {
    const std::size_t pages = stride(bytes_) / page(bytes_);
    const auto begin = [&](int rank) {
      return pages * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks);
    };
    return file_->reserve(begin(caller) * page(bytes_), (begin(caller + 1) - begin(caller)) * page(bytes_));
  }

 private:
  static std::size_t page(std::size_t bytes) { return bytes < huge_page ? 4096 : huge_page; }
  static std::size_t stride(std::size_t bytes) { return (bytes + page(bytes) - 1) / page(bytes) * page(bytes); }
  char* part(int rank) const { return file_->data() + stride(bytes_) * static_cast<std::size_t>(rank); }
  std::shared_ptr<SharedFile> file_;
  std::size_t bytes_;
  int rank_;
};

/// Zeroed memory of `bytes` bytes, shared by the ranks of a host that pass the same size and key. One of them runs
/// prepare() before the others map it. Null if this rank is the only one, or cannot share
/// memory, which is logged. Works with any all-reduce algorithm and any numbers of ranks. Collective.
std::shared_ptr<SharedFile> share_on_host(Communicator& communicator, std::size_t bytes, const std::string& key,
                                          const std::function<void(char*)>& prepare);

}  // namespace babelring

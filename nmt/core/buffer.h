#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "nmt/core/tensor.h"

namespace babelring {

/// Bytes of a huge page on x86-64.
inline constexpr std::size_t huge_page = 2 << 20;

/// Gives the whole pages of [data, data + bytes), memory of the process or shared memory of the host's ranks, back to
/// the system. Their content is lost; they take memory again when they are next written.
void release_pages(void* data, std::size_t bytes);

/// Owns 256-byte aligned memory of one device. Move-only. Created by Backend::allocate and allocate_host; `release`
/// frees the memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, std::function<void(void*)> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      swap(other);
    }
    return *this;
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// A view of `shape` and `type` that starts at byte `offset`. Throws Failure if it exceeds the buffer.
  Tensor view(Shape shape, DType type, std::size_t offset = 0) const;

 private:
  void reset() {
    if (data_ != nullptr) release_(data_);
    data_ = nullptr;
    bytes_ = 0;
  }
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
  }
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::function<void(void*)> release_;
};

/// Allocates zeroed, 256-byte aligned host memory. Throws Failure with the requested size if out of memory.
Buffer allocate_host(std::size_t bytes);

/// Bump allocator for tensors that are freed together. It grows by blocks and keeps them, so nothing is allocated after
/// the first updates. `saved` arenas live for a micro-batch; `scratch` arenas rewind when a layer returns. Memory is
/// not cleared between uses. Not thread-safe.
class Arena {
  struct Mark {
    std::size_t block = 0, offset = 0, used = 0;
  };

 public:
  using Allocate = std::function<Buffer(std::size_t bytes)>;
  /// `allocate` provides the blocks, each at least `block_bytes`. `pads_rows`: whether make_rows() pads.
  explicit Arena(Allocate allocate, bool pads_rows = true, std::size_t block_bytes = std::size_t{16} << 20)
      : allocate_(std::move(allocate)), pads_rows_(pads_rows), block_bytes_(block_bytes) {}

  /// A contiguous tensor, 256-byte aligned, content undefined. Valid until reset() or the end of the enclosing Scope.
  Tensor make(Shape shape, DType type);
  /// Like make(), for a [rows, columns] tensor whose kernels read along columns. In an arena that pads, rows whose size
  /// is a multiple of 4 KiB get one cache line of padding, so that the elements of a column do not map to the same
  /// CPU cache sets. The returned view is then strided.
  Tensor make_rows(std::int64_t rows, std::int64_t columns, DType type);

  /// Allocates a first block of at least `bytes`. Does nothing if the arena already has a block.
  void reserve(std::size_t bytes);

  /// Frees all tensors and invalidates their views. Keeps the blocks.
  void reset() { rewind({}); }
  /// Like reset(), and replaces multiple blocks by a single block of peak_bytes(). Without this, varying sizes would
  /// accumulate blocks that are slightly too small.
  void reset_to_one_block();

  /// Whether the byte at this address belongs to the part of a block that is in use.
  bool holds(const void* address) const;
  std::size_t used_bytes() const { return used_; }
  std::size_t peak_bytes() const { return peak_; }

  /// On destruction, frees all tensors made during the scope.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
    ~Scope() { arena_.rewind(mark_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    Mark mark_;
  };

 private:
  friend class Scope;
  Mark mark() const { return {block_, offset_, used_}; }
  void rewind(Mark mark);
  Allocate allocate_;
  bool pads_rows_;
  std::size_t block_bytes_;
  std::vector<Buffer> blocks_;
  std::size_t block_ = 0, offset_ = 0, used_ = 0, peak_ = 0;
};

}  // namespace babelring

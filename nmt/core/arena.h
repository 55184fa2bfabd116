#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "nmt/core/buffer.h"

namespace babelring {

/// Bump allocator of tensors that die together. Grows by blocks and keeps them: after the first updates nothing is
/// allocated. `saved` arenas live for a micro-batch, `scratch` arenas rewind when a layer returns. Not thread-safe.
/// Memory is not cleared between uses.
class Arena {
  struct Mark {
    std::size_t block = 0, offset = 0, used = 0;
  };

 public:
  using Allocate = std::function<Buffer(std::size_t bytes)>;
  explicit Arena(Allocate allocate, std::size_t block_bytes = std::size_t{16} << 20)
      : allocate_(std::move(allocate)), block_bytes_(block_bytes) {}

  /// A contiguous tensor, 256-byte aligned, content undefined. Valid until reset() or the end of the enclosing Scope.
  Tensor make(Shape shape, DType type);
  /// The same for [rows, columns] that columns of several rows are read from at once: strided where rows would be a
  /// multiple of 4 KiB long, which puts a column's elements into the same few places of a cache.
  Tensor make_rows(std::int64_t rows, std::int64_t columns, DType type);

  /// Makes the first block of so many bytes at least, while there is none.
  void reserve(std::size_t bytes);

  /// Gives everything back; views made before are dead. Blocks stay.
  void reset() { rewind({}); }
  /// The same, and one block as large as what was ever used takes the place of several: where sizes vary, blocks that
  /// are too small by a little would pile up beside larger ones.
  void reset_to_one_block();

  std::size_t used_bytes() const { return used_; }
  std::size_t peak_bytes() const { return peak_; }

  /// Rewinds the arena to where it was when the scope began.
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
  std::size_t block_bytes_;
  std::vector<Buffer> blocks_;
  std::size_t block_ = 0, offset_ = 0, used_ = 0, peak_ = 0;
};

}  // namespace babelring

#pragma once

#include <memory>
#include <utility>

#include "nmt/comm/shared/comm_memory.h"
#include "nmt/core/shared_file.h"

namespace babelring {

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
  /// Reserves the caller's share of a part that `ranks` ranks have in common.
  bool reserve_share(int caller, int ranks) {
    const std::size_t pages = stride(bytes_) / page(bytes_);
    const auto begin = [&](int of) { return pages * static_cast<std::size_t>(of) / static_cast<std::size_t>(ranks); };
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

}  // namespace babelring

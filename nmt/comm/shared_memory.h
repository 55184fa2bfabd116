#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nmt/comm/comm_memory.h"

namespace babelring {

inline constexpr std::size_t huge_page = 2 << 20;

/// Zeroed memory shared by processes on one machine, backed by an anonymous file (memfd) that is freed with its last
/// user. It does not count against /dev/shm, which is small in containers.
class SharedFile {
 public:
  /// Returns null if the system does not support it.
  static std::shared_ptr<SharedFile> create(std::size_t bytes);
  /// Opens another process's file by its invitation(). Returns null if that process is on another machine or belongs to
  /// another user.
  static std::shared_ptr<SharedFile> open(const std::string& invitation);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  /// A text that open() accepts in another process. Valid while this object exists.
  std::string invitation() const;
  /// Allocates the range now instead of at first use, on the caller's NUMA node. Uses huge pages for the whole huge
  /// pages in the range, if available. Returns false if memory is short.
  bool reserve(std::size_t offset, std::size_t bytes) const;
  /// Aligned to `huge_page`.
  char* data() const { return mapping_ + header_bytes; }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t header_bytes = huge_page;  // keeps data() aligned; holds only the token
  SharedFile(int descriptor, char* mapping, std::size_t bytes)
      : descriptor_(descriptor), mapping_(mapping), bytes_(bytes) {}
  static std::shared_ptr<SharedFile> map(int descriptor, std::size_t bytes);
  std::uint64_t& token() const { return *reinterpret_cast<std::uint64_t*>(mapping_); }

  int descriptor_;
  char* mapping_;
  std::size_t bytes_;
};

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

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nmt/comm/comm_memory.h"

namespace babelring {

inline constexpr std::size_t huge_page = 2 << 20;

/// Zeroed memory that processes of one machine share: a nameless file in memory, which goes with its last user. It does
/// not count against /dev/shm, which containers keep small.
class SharedFile {
 public:
  /// Null if the system does not allow it.
  static std::shared_ptr<SharedFile> create(std::size_t bytes);
  /// The file behind another process's invitation. Null if that process is not of this machine and user.
  static std::shared_ptr<SharedFile> open(const std::string& invitation);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  /// What open() takes, valid while this object exists.
  std::string invitation() const;
  /// Allocates the memory now, on the caller's NUMA node, instead of at first use; in huge pages where the system has
  /// them and the range covers whole ones. False if there is not enough.
  bool reserve(std::size_t offset, std::size_t bytes) const;
  /// On the boundary of a huge page.
  char* data() const { return mapping_ + header_bytes; }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t header_bytes = huge_page;  // of which a page is used: it begins with the token
  SharedFile(int descriptor, char* mapping, std::size_t bytes)
      : descriptor_(descriptor), mapping_(mapping), bytes_(bytes) {}
  static std::shared_ptr<SharedFile> map(int descriptor, std::size_t bytes);
  std::uint64_t& token() const { return *reinterpret_cast<std::uint64_t*>(mapping_); }

  int descriptor_;
  char* mapping_;
  std::size_t bytes_;
};

/// One rank's view of a file of equally large parts, one for each rank. A file with a single part is memory common to
/// all: `rank` is 0 for each of them then.
class SharedMemory final : public CommMemory {
 public:
  /// The size of the file for parts of `bytes`.
  static std::size_t file_bytes(std::size_t bytes, int ranks) {
    return stride(bytes) * static_cast<std::size_t>(ranks);
  }
  SharedMemory(std::shared_ptr<SharedFile> file, std::size_t bytes, int rank)
      : file_(std::move(file)), bytes_(bytes), rank_(rank) {}

  char* data() const override { return part(rank_); }
  std::size_t bytes() const override { return bytes_; }
  /// Where `rank` has what lies at `own` on this rank.
  float* peer_of(float* own, int rank) const {
    return reinterpret_cast<float*>(part(rank) + (reinterpret_cast<char*>(own) - part(rank_)));
  }
  /// See SharedFile::reserve; this rank's part.
  bool reserve() { return file_->reserve(stride(bytes_) * static_cast<std::size_t>(rank_), stride(bytes_)); }
  /// The same for the caller's share of a part that `ranks` have in common.
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

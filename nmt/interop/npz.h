#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace babelring {

/// The files in a zip archive, zip64 or not, which libzip would not let see where they lie: one that is not compressed
/// is used in its place. Reads the central directory and checks each local header against it. Messages name the archive
/// and the entry.
class ZipReader {
 public:
  struct Entry {
    std::string name;
    std::span<const std::byte> stored;  // its bytes in the archive
    std::uint64_t size = 0;             // of the file
    std::uint32_t crc = 0;
    bool is_deflated = false;
    bool is_link = false;  // a symbolic link
  };

  /// `archive` must outlive the reader; `file` is its name. Throws Failure if it is damaged, has a name twice, or an
  /// entry is encrypted, neither stored nor deflated, or of a size that its bytes cannot give.
  ZipReader(std::span<const std::byte> archive, std::string file);

  const std::vector<Entry>& entries() const { return entries_; }  // in the order of the directory
  const Entry* find(std::string_view name) const;                 // null: absent
  /// Passes the file's bytes to `take`, in parts if it is deflated. Throws Failure, perhaps after some parts, if they
  /// are not of the size and the CRC of the directory.
  void read(const Entry& entry, const std::function<void(std::span<const std::byte>)>& take) const;
  /// A file of at most `max_bytes`. Throws Failure as read().
  std::string text(const Entry& entry, std::uint64_t max_bytes) const;
  const std::string& file() const { return file_; }

 private:
  std::span<const std::byte> archive_;
  std::string file_;
  std::vector<Entry> entries_;
};

/// An array of an .npz file, row-major and little-endian. `bytes` are not aligned.
struct NpzArray {
  std::string name;  // without .npy
  std::string type;  // of numpy: "<f4"
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  bool is_in_place = true;  // `bytes` lie in the archive
};

/// Arrays of an .npz file. Those that are not compressed lie in the archive, which must outlive the reader.
class NpzReader {
 public:
  /// `is_mapped`: the archive is a MappedFile, whose pages are given back when they are checked. Throws Failure that
  /// names file and entry: as ZipReader, and if an entry is no .npy file of version 1 to 3, is in
  /// Fortran's order, or has another number of bytes than its shape and type say.
  NpzReader(std::span<const std::byte> archive, const std::string& file, bool is_mapped = false);
  NpzReader(const NpzReader&) = delete;
  NpzReader& operator=(const NpzReader&) = delete;
  const std::vector<NpzArray>& arrays() const { return arrays_; }  // in the file's order

 private:
  std::deque<std::string> inflated_;
  std::vector<NpzArray> arrays_;
};

/// Writes an .npz file with the bytes that Marian writes for the same arrays: not compressed, without dates.
class NpzWriter {
 public:
  /// `file` must outlive the writer.
  explicit NpzWriter(AtomicFile& file) : file_(file) {}
  /// Throws Failure if the archive would have 4 GiB, which Marian cannot count.
  void add(const std::string& name, std::string_view type, const std::vector<std::int64_t>& shape,
           std::span<const std::byte> bytes);
  void finish();

 private:
  void write(std::string_view bytes);

  AtomicFile& file_;
  std::string directory_;
  std::uint64_t position_ = 0;
  std::uint16_t count_ = 0;
};

}  // namespace babelring

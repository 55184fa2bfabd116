#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace babelring {

/// A read-only memory map of a whole file, unmapped on destruction. Reading beyond the end of a file that was truncated
/// after mapping ends the process with a message that names the file. Move-only: spans from bytes() stay valid after
/// a move.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Failure (file, system error). For an empty file, bytes() is empty.
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Gives back the memory of the pages that lie wholly in a part of a MappedFile. Reading them again reads the file.
void release_pages(std::span<const std::byte> part);

}  // namespace babelring

#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace babelring {

/// A whole file mapped into memory for reading; unmapped when destroyed. If the file is truncated meanwhile, reading
/// ends the process with a line that names the file (mapping_guard.h). Move-only: spans of bytes() stay valid when
/// it is moved.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Failure (file, system error). An empty file has no bytes.
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace babelring

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/digest.h"
#include "base/mapped_file.h"
#include "base/records.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A tensor under the name by which a file knows it. The view must outlive the call it is given to.
struct NamedTensor {
  std::string name;
  ConstTensor tensor;
};

/// One tensor of a safetensors file, as its header states it.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // F32, BF16, I32, U8, …
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes from the beginning of the file
};

/// Reads a safetensors file: 8 bytes with the header's length (little-endian), a JSON header, the tensors' bytes.
/// The file is mapped; the views live as long as the reader.  Format: huggingface/safetensors, format 0.x.
class SafetensorsReader {
 public:
  /// Maps the file and checks everything its header says: lengths, types, shapes, and that the tensors fill the file
  /// without gap or overlap. Throws Failure naming file, byte and what was expected.
  explicit SafetensorsReader(std::filesystem::path file);

  const std::filesystem::path& file() const { return file_; }

  /// In the order of their bytes.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }

  /// Null if there is no tensor of that name.
  const SafetensorsEntry* find(std::string_view name) const;
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;

  /// A view into the mapped file. Throws Failure if the tensor is absent or of a type, rank or alignment that
  /// ConstTensor has not.
  ConstTensor tensor(std::string_view name) const;
  /// The same, and throws Failure unless it has this shape and type.
  ConstTensor tensor(std::string_view name, const Shape& shape, DType dtype = DType::f32) const;

 private:
  void check_layout(std::uint64_t data_begin);

  std::filesystem::path file_;
  MappedFile mapped_;
  std::vector<SafetensorsEntry> entries_;
};

/// Writes a safetensors file tensor by tensor, so that no more than one needs to be in memory. The file appears under
/// its name, durably, at finish(); abandoned, it leaves nothing behind.
class SafetensorsWriter {
 public:
  struct Layout {
    std::string name;
    Shape shape;
    DType dtype = DType::f32;
  };

  /// Throws Failure if a name comes twice, a type stands after a narrower one (its bytes would not be aligned), or the
  /// file cannot be made.
  SafetensorsWriter(const std::filesystem::path& file, std::vector<Layout> layout);

  /// The next tensor in the declared order, contiguous, in host memory. Throws Failure if it is not the one declared.
  void add(const ConstTensor& tensor);

  /// Size and digest of the file, computed while it was written. Throws Failure if a tensor is missing.
  CheckpointFile finish();

 private:
  void append(const void* data, std::size_t bytes);

  std::filesystem::path path_;
  std::vector<Layout> layout_;
  std::size_t next_ = 0;
  std::int64_t size_ = 0;
  AtomicFile file_;
  Sha256 digest_;
};

/// Writes all tensors in the given order. Throws Failure as SafetensorsWriter.
CheckpointFile write_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors);

}  // namespace babelring

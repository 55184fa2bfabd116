#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/files.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/records/records.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A tensor and its name in a file. The view must stay valid during the call it is passed to.
struct NamedTensor {
  std::string name;
  ConstTensor tensor;
};

/// A tensor entry of a safetensors header.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // F32, BF16, I32, U8, …
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // byte range in the file
};

/// Reads a safetensors file: 8 bytes header length (little-endian), a JSON header, the tensor data. The file is
/// memory-mapped; views are valid as long as the reader. Format: huggingface/safetensors, format 0.x.
class SafetensorsReader {
 public:
  /// Maps the file and checks its header: lengths, types, shapes, and that the tensors cover the data without gaps or
  /// overlap. Throws Failure naming the file, the byte position and the expected value.
  explicit SafetensorsReader(std::filesystem::path file);

  const std::filesystem::path& file() const { return file_; }
  /// The header's `__metadata__`, of strings only.
  const json::object& metadata() const { return metadata_; }

  /// All entries, ordered by position in the file.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }

  /// The entry of a tensor; null if there is none.
  const SafetensorsEntry* find(std::string_view name) const;
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;

  /// A view of a tensor in the mapped file. Throws Failure if it is missing or has a type, rank or alignment that
  /// ConstTensor does not support.
  ConstTensor tensor(std::string_view name) const;
  /// Like above; also throws Failure if shape or type differ.
  ConstTensor tensor(std::string_view name, const Shape& shape, DType dtype = DType::f32) const;

 private:
  void check_layout(std::uint64_t data_begin);

  std::filesystem::path file_;
  MappedFile mapped_;
  json::object metadata_;
  std::vector<SafetensorsEntry> entries_;
};

/// Writes a safetensors file one tensor at a time, so only one needs to be in memory. finish() makes the file visible
/// and durable; without it, no file is left.
class SafetensorsWriter {
 public:
  struct Layout {
    std::string name;
    Shape shape;
    DType dtype = DType::f32;
  };

  /// `metadata`: strings for the header. Throws Failure if a name is empty or repeated, if a type follows a narrower
  /// one (its data would be misaligned), or if the file cannot be created.
  SafetensorsWriter(const std::filesystem::path& file, std::vector<Layout> layout, const json::object& metadata = {});

  /// Writes the next tensor of the layout; it must be contiguous and in host memory. Throws Failure if it does not
  /// match the layout.
  void add(const ConstTensor& tensor);

  /// Completes the file and returns its size and digest. Throws Failure if a tensor is missing.
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

/// Writes all tensors in the given order. Throws the same Failures as SafetensorsWriter.
CheckpointFile write_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors);

}  // namespace babelring

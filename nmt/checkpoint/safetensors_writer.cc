#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "base/failure.h"
#include "base/json.h"
#include "nmt/checkpoint/safetensors.h"

namespace babelring {
namespace {

constexpr std::size_t data_alignment = 64;

std::string_view file_name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::i32:
      return "I32";
  }
  fail("safetensors: element type {} has no name in the format", static_cast<int>(dtype));
}

/// The JSON header, padded with spaces so that the data is aligned.
std::string header_of(const std::filesystem::path& file, const std::vector<SafetensorsWriter::Layout>& layout) {
  json::object header;
  std::int64_t offset = 0;
  std::size_t width = 8;
  for (const auto& [name, shape, dtype] : layout) {
    if (name.empty() || header.contains(name)) {
      fail("safetensors {}: expected distinct names, found '{}' again or empty", file.string(), name);
    }
    if (size_of(dtype) > width) fail("safetensors {}: '{}' follows a narrower type", file.string(), name);
    width = size_of(dtype);
    json::array extents;
    for (int axis = 0; axis < shape.rank(); ++axis) extents.emplace_back(shape[axis]);
    const std::int64_t end = offset + shape.elements() * static_cast<std::int64_t>(size_of(dtype));
    header.emplace(name, json::object{{"dtype", file_name_of(dtype)},
                                      {"shape", std::move(extents)},
                                      {"data_offsets", json::array{offset, end}}});
    offset = end;
  }
  std::string text = to_text(header);
  text.append((data_alignment - (8 + text.size()) % data_alignment) % data_alignment, ' ');
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file, std::vector<Layout> layout)
    : path_(file), layout_(std::move(layout)), file_(file) {
  const std::string header = header_of(file, layout_);
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xffU);
  append(length.data(), length.size());
  append(header.data(), header.size());
}

void SafetensorsWriter::append(const void* data, std::size_t bytes) {
  file_.write(data, bytes);
  digest_.add(data, bytes);
  size_ += static_cast<std::int64_t>(bytes);
}

void SafetensorsWriter::add(const ConstTensor& tensor) {
  if (next_ == layout_.size()) fail("safetensors {}: all {} tensors are written", path_.string(), layout_.size());
  const Layout& expected = layout_[next_];
  if (tensor.shape != expected.shape || tensor.dtype != expected.dtype || !tensor.contiguous()) {
    fail("safetensors {}: tensor '{}' is {} {}{}, expected contiguous {} {}", path_.string(), expected.name,
         name_of(tensor.dtype), tensor.shape.text(), tensor.contiguous() ? "" : " with gaps", name_of(expected.dtype),
         expected.shape.text());
  }
  append(tensor.data, tensor.bytes());
  ++next_;
}

CheckpointFile SafetensorsWriter::finish() {
  if (next_ != layout_.size()) {
    fail("safetensors {}: tensor '{}' was declared and not written", path_.string(), layout_[next_].name);
  }
  file_.commit();
  return {.name = path_.filename().string(), .size = size_, .sha256 = digest_.hex()};
}

CheckpointFile write_safetensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors) {
  std::vector<SafetensorsWriter::Layout> layout;
  for (const NamedTensor& named : tensors) {
    layout.push_back({.name = named.name, .shape = named.tensor.shape, .dtype = named.tensor.dtype});
  }
  SafetensorsWriter writer(file, std::move(layout));
  for (const NamedTensor& named : tensors) writer.add(named.tensor);
  return writer.finish();
}

}  // namespace babelring

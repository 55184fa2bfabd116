#include "nmt/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <limits>
#include <utility>

#include "base/failure.h"
#include "base/json.h"
#include "base/log.h"

namespace babelring {
namespace {

constexpr std::uint64_t max_header_bytes = 100'000'000;  // same limit as the reference implementation

/// Element size in bytes; 0 for an unknown type.
std::uint64_t element_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, std::uint64_t>, 15> types = {{{"BOOL", 1},
                                                                                 {"U8", 1},
                                                                                 {"I8", 1},
                                                                                 {"F8_E5M2", 1},
                                                                                 {"F8_E4M3", 1},
                                                                                 {"I16", 2},
                                                                                 {"U16", 2},
                                                                                 {"F16", 2},
                                                                                 {"BF16", 2},
                                                                                 {"I32", 4},
                                                                                 {"U32", 4},
                                                                                 {"F32", 4},
                                                                                 {"F64", 8},
                                                                                 {"I64", 8},
                                                                                 {"U64", 8}}};
  const auto* at = std::find_if(types.begin(), types.end(), [&](const auto& type) { return type.first == dtype; });
  return at == types.end() ? 0 : at->second;
}

/// Parses the header; errors are thrown by fail_tensor().
class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& file, std::uint64_t data_begin, std::uint64_t data_bytes)
      : file_(file), data_begin_(data_begin), data_bytes_(data_bytes) {}

  /// Checks the metadata of other programs, which is otherwise ignored.
  void check_metadata(const json::value& in) const {
    if (!in.is_object()) fail_tensor("__metadata__", "expected an object");
    for (const auto& member : in.get_object()) {
      if (!member.value().is_string()) fail_tensor("__metadata__", "expected strings only");
    }
  }

  SafetensorsEntry read_entry(std::string_view name, const json::value& in) const {
    if (!in.is_object() || in.get_object().size() != 3) fail_tensor(name, "expected dtype, shape and data_offsets");
    const json::value& dtype = member(name, in, "dtype");
    if (!dtype.is_string() || element_bytes(dtype.get_string()) == 0) {
      fail_tensor(name, fmt::format("unknown dtype {}", printable(to_text(dtype))));
    }
    SafetensorsEntry entry;
    entry.name = name;
    entry.dtype = std::string_view(dtype.get_string());
    std::uint64_t bytes = element_bytes(entry.dtype);
    for (const std::uint64_t extent : read_integers(name, in, "shape")) {
      if (extent > 0 && bytes > std::numeric_limits<std::int64_t>::max() / extent) fail_tensor(name, "shape overflows");
      bytes *= extent;
      entry.shape.push_back(static_cast<std::int64_t>(extent));
    }
    const std::vector<std::uint64_t> offsets = read_integers(name, in, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes_) {
      fail_tensor(name, fmt::format("data_offsets {} do not lie in the {} bytes of data", offsets, data_bytes_));
    }
    if (offsets[1] - offsets[0] != bytes) {
      fail_tensor(name, fmt::format("{} {} takes {} bytes, data_offsets {} hold {}", entry.dtype, entry.shape, bytes,
                                    offsets, offsets[1] - offsets[0]));
    }
    entry.begin = data_begin_ + offsets[0];
    entry.end = data_begin_ + offsets[1];
    return entry;
  }

 private:
  [[noreturn]] void fail_tensor(std::string_view name, const std::string& what) const {
    fail("safetensors {}: header, byte 8: tensor '{}': {}", file_.string(), printable(name), what);
  }
  const json::value& member(std::string_view name, const json::value& in, const char* key) const {
    const json::value* found = in.get_object().if_contains(key);
    if (found == nullptr) fail_tensor(name, fmt::format("{} is absent", key));
    return *found;
  }
  std::vector<std::uint64_t> read_integers(std::string_view name, const json::value& in, const char* key) const {
    const json::value& list = member(name, in, key);
    if (!list.is_array()) fail_tensor(name, fmt::format("{}: expected an array", key));
    std::vector<std::uint64_t> numbers;
    for (const json::value& element : list.get_array()) {
      if (!element.is_int64() || element.get_int64() < 0) {
        fail_tensor(name,
                    fmt::format("{} holds {}, expected an integer of at least 0", key, printable(to_text(element))));
      }
      numbers.push_back(static_cast<std::uint64_t>(element.get_int64()));
    }
    return numbers;
  }

  const std::filesystem::path& file_;
  std::uint64_t data_begin_, data_bytes_;
};

/// True for the types supported by Tensor.
bool known_dtype(std::string_view name, DType& dtype) {
  if (name == "F32") dtype = DType::f32;
  if (name == "BF16") dtype = DType::bf16;
  if (name == "I32") dtype = DType::i32;
  if (name == "I8") dtype = DType::int8;
  return name == "F32" || name == "BF16" || name == "I32" || name == "I8";
}

bool to_shape(const std::vector<std::int64_t>& extents, Shape& shape) {
  switch (extents.size()) {
    case 0:
      shape = {};
      return true;
    case 1:
      shape = {extents[0]};
      return true;
    case 2:
      shape = {extents[0], extents[1]};
      return true;
    case 3:
      shape = {extents[0], extents[1], extents[2]};
      return true;
    case 4:
      shape = {extents[0], extents[1], extents[2], extents[3]};
      return true;
    default:
      return false;
  }
}

}  // namespace

SafetensorsReader::SafetensorsReader(std::filesystem::path file) : file_(std::move(file)), mapped_(file_) {
  const std::span<const std::byte> all = mapped_.bytes();
  if (all.size() < 8) fail("safetensors {}: {} bytes, expected at least 8", file_.string(), all.size());
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(all[i]);
  if (length > all.size() - 8 || length > max_header_bytes) {
    fail("safetensors {}: byte 0: header of {} bytes in a file of {}: it is no safetensors file, or its end is missing",
         file_.string(), length, all.size());
  }
  const void* text = all.data() + 8;
  const auto header = parse_json({static_cast<const char*>(text), length});
  if (!header.ok()) fail("safetensors {}: header, byte 8: {}", file_.string(), header.error());
  if (!header->is_object()) fail("safetensors {}: header, byte 8: expected a JSON object", file_.string());
  const HeaderReader reader(file_, 8 + length, all.size() - 8 - length);
  for (const auto& member : header->get_object()) {
    if (member.key() == "__metadata__") {
      reader.check_metadata(member.value());
      metadata_ = member.value().get_object();
    } else {
      entries_.push_back(reader.read_entry(member.key(), member.value()));
    }
  }
  check_layout(8 + length);
}

void SafetensorsReader::check_layout(std::uint64_t data_begin) {
  std::stable_sort(entries_.begin(), entries_.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = data_begin;
  for (const SafetensorsEntry& entry : entries_) {
    if (entry.begin != at) {
      fail("safetensors {}: byte {}: tensor '{}' begins here, expected at byte {}, where the one before it ends",
           file_.string(), entry.begin, printable(entry.name), at);
    }
    at = entry.end;
  }
  if (at != mapped_.bytes().size()) {
    fail("safetensors {}: byte {}: the last tensor ends here, the file at byte {}", file_.string(), at,
         mapped_.bytes().size());
  }
}

const SafetensorsEntry* SafetensorsReader::find(std::string_view name) const {
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.name == name; });
  return at == entries_.end() ? nullptr : &*at;
}

std::span<const std::byte> SafetensorsReader::bytes(const SafetensorsEntry& entry) const {
  return mapped_.bytes().subspan(entry.begin, entry.end - entry.begin);
}

ConstTensor SafetensorsReader::tensor(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) fail("safetensors {}: no tensor '{}'", file_.string(), printable(name));
  DType dtype{};
  Shape shape;
  if (!known_dtype(entry->dtype, dtype)) {
    fail("safetensors {}: tensor '{}' is {}, expected F32, BF16, I32 or I8", file_.string(), printable(name),
         entry->dtype);
  }
  if (!to_shape(entry->shape, shape)) {
    fail("safetensors {}: tensor '{}' has {} extents, expected at most {}", file_.string(), printable(name),
         entry->shape.size(), Shape::max_rank);
  }
  if (entry->begin % size_of(dtype) != 0) {
    fail("safetensors {}: byte {}: tensor '{}' is not aligned to {} bytes", file_.string(), entry->begin,
         printable(name), size_of(dtype));
  }
  return ConstTensor(bytes(*entry).data(), shape, dtype);
}

ConstTensor SafetensorsReader::tensor(std::string_view name, const Shape& shape, DType dtype) const {
  const ConstTensor found = tensor(name);
  if (found.shape != shape || found.dtype != dtype) {
    fail("safetensors {}: tensor '{}' is {} {}, expected {} {}", file_.string(), printable(name), name_of(found.dtype),
         found.shape.text(), name_of(dtype), shape.text());
  }
  return found;
}

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
    case DType::int8:
      return "I8";
  }
  fail("safetensors: element type {} has no name in the format", static_cast<int>(dtype));
}

/// The JSON header, padded with spaces so that the data is aligned.
std::string header_of(const std::filesystem::path& file, const std::vector<SafetensorsWriter::Layout>& layout,
                      const json::object& metadata) {
  json::object header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
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

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file, std::vector<Layout> layout,
                                     const json::object& metadata)
    : path_(file), layout_(std::move(layout)), file_(file) {
  const std::string header = header_of(file, layout_, metadata);
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

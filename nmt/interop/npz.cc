// The formats: numpy.lib.format (npy), Marian 1.12's src/3rd_party/cnpy (the archive that it writes).
#include "nmt/interop/npz.h"

#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "base/failure.h"
#include "base/log.h"
#include "base/mapped_file.h"

namespace babelring {

static_assert(std::endian::native == std::endian::little, "the numbers of both formats are little-endian");

namespace {

std::string_view text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The value of a member in the dictionary of an .npy file, up to the comma or the end; none if it is absent.
std::optional<std::string_view> npy_member(std::string_view header, std::string_view name) {
  for (const char quote : {'\'', '"'}) {
    const std::string key = fmt::format("{0}{1}{0}:", quote, name);
    const std::size_t at = header.find(key);
    if (at == std::string_view::npos) continue;
    std::string_view value = header.substr(at + key.size());
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    const std::size_t end = value.starts_with('(') ? value.find(')') : value.find_first_of(",}");
    return end == std::string_view::npos ? std::nullopt : std::optional(value.substr(0, end));
  }
  return std::nullopt;
}

/// The numbers of "(3, 4" or "(3,".
std::optional<std::vector<std::int64_t>> npy_shape(std::string_view text) {
  std::vector<std::int64_t> shape;
  if (!text.starts_with('(')) return std::nullopt;
  text.remove_prefix(1);
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) return shape;
    std::int64_t size = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) return std::nullopt;
    shape.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (!text.empty() && text.front() != ',') return std::nullopt;
    if (!text.empty()) text.remove_prefix(1);
  }
}

/// Bytes of an element of "<f4", "|i1" and other numbers; 0 if it is of another kind or big-endian.
std::uint64_t bytes_of_element(std::string_view type) {
  constexpr std::string_view orders = "<|=", kinds = "fiub";
  if (type.size() != 3 || orders.find(type[0]) == std::string_view::npos ||
      kinds.find(type[1]) == std::string_view::npos) {
    return 0;
  }
  const char digit = type[2];
  return digit == '1' || digit == '2' || digit == '4' || digit == '8' ? static_cast<std::uint64_t>(digit - '0') : 0;
}

/// An array of the content of an .npy file; `entry` is for messages.
NpzArray npy_array(std::span<const std::byte> content, const std::string& entry) {
  const auto refuse = [&](std::string_view found, std::string_view expected) {
    fail("{}: found {}, expected {}", entry, found, expected);
  };
  constexpr std::string_view magic = "\x93NUMPY";
  constexpr std::size_t versions = 3;
  if (content.size() < magic.size() + 4 || text_in(content.first(magic.size())) != magic) {
    refuse("no .npy file", "the array of one");
  }
  const auto version = static_cast<unsigned>(content[magic.size()]);
  if (version == 0 || version > versions) refuse(fmt::format("version {} of .npy", version), "1, 2 or 3");
  std::uint32_t header_bytes = 0;
  const std::size_t size_bytes = version == 1 ? 2 : 4, begin = magic.size() + 2 + size_bytes;
  if (begin <= content.size()) std::memcpy(&header_bytes, content.data() + magic.size() + 2, size_bytes);
  if (begin > content.size() || header_bytes > content.size() - begin) refuse("a header that is cut", "a whole one");
  const std::string_view header = text_in(content.subspan(begin, header_bytes));
  const auto type = npy_member(header, "descr"), order = npy_member(header, "fortran_order"),
             shape_text = npy_member(header, "shape");
  const auto shape = shape_text ? npy_shape(*shape_text) : std::nullopt;
  if (!type || type->size() < 2 || !order || !shape) {
    refuse(fmt::format("the header {}", printable(header.substr(0, 200))), "descr, fortran_order and shape");
  }
  if (*order != "False") refuse(fmt::format("fortran_order {}", printable(*order)), "False, rows one after the other");
  NpzArray array;
  array.type = type->substr(1, type->size() - 2);
  array.shape = *shape;
  std::uint64_t bytes = bytes_of_element(array.type);
  if (bytes == 0) refuse(fmt::format("elements of type {}", printable(*type)), "little-endian numbers");
  array.bytes = content.subspan(begin + header_bytes);
  for (const std::int64_t size : array.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) bytes = ~std::uint64_t{0};
  }
  if (bytes != array.bytes.size()) {
    refuse(fmt::format("{} bytes", array.bytes.size()),
           fmt::format("{}, of shape [{}] and type {}", bytes, fmt::join(array.shape, ", "), array.type));
  }
  return array;
}

}  // namespace

NpzReader::NpzReader(std::span<const std::byte> archive, const std::string& file, bool is_mapped) {
  const ZipReader zip(archive, file);
  constexpr std::string_view suffix = ".npy";
  for (const ZipReader::Entry& entry : zip.entries()) {
    const std::string name = fmt::format("{}: {}", file, printable(entry.name));
    if (!entry.name.ends_with(suffix)) fail("{}: expected arrays only, NAME.npy", name);
    std::span<const std::byte> content = entry.stored;
    if (entry.is_deflated) {
      constexpr std::uint64_t any_size = ~std::uint64_t{0};
      const std::string& inflated = inflated_.emplace_back(zip.text(entry, any_size));
      content = std::as_bytes(std::span(inflated));
    } else {
      zip.read(entry, [](auto) {});  // checks it
    }
    if (is_mapped) release_pages(entry.stored);
    NpzArray array = npy_array(content, name);
    array.name = entry.name.substr(0, entry.name.size() - suffix.size());
    array.is_in_place = !entry.is_deflated;
    arrays_.push_back(std::move(array));
  }
}

namespace {

/// The beginning of an .npy file, version 1.0: a dictionary of Python, filled up to a multiple of 16 bytes.
std::string npy_header(std::string_view type, const std::vector<std::int64_t>& shape) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t before = 10, multiple = 16;
  text.resize((before + text.size() + multiple) / multiple * multiple - before, ' ');
  text.back() = '\n';
  const auto size = static_cast<std::uint16_t>(text.size());
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

std::uint32_t crc_after(std::uint32_t before, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

constexpr std::uint32_t local_header = 0x04034b50, directory_entry = 0x02014b50, directory_end = 0x06054b50;

template <class... Numbers>
std::string packed(Numbers... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return bytes;
}

}  // namespace

void NpzWriter::write(std::string_view bytes) {
  file_.write(bytes);
  position_ += bytes.size();
}

void NpzWriter::add(const std::string& name, std::string_view type, const std::vector<std::int64_t>& shape,
                    std::span<const std::byte> bytes) {
  constexpr std::uint16_t version = 20, none = 0;
  constexpr std::uint64_t limit = std::numeric_limits<std::uint32_t>::max();
  const std::string header = npy_header(type, shape), file = name + ".npy";
  const std::uint64_t size = header.size() + bytes.size();
  if (size >= limit || position_ + size >= limit) {
    fail("export: {} would make model.npz larger than 4 GiB, which Marian's counts of 32 bits cannot hold", name);
  }
  const std::uint32_t crc = crc_after(crc_after(0, std::as_bytes(std::span(header))), bytes);
  const auto size32 = static_cast<std::uint32_t>(size);
  const std::string common =
      packed(version, none, none, none, none, crc, size32, size32, static_cast<std::uint16_t>(file.size()), none);
  directory_ += packed(directory_entry, version) + common +
                packed(none, none, none, std::uint32_t{0}, static_cast<std::uint32_t>(position_)) + file;
  write(packed(local_header) + common + file + header);
  write(text_in(bytes));
  ++count_;
}

void NpzWriter::finish() {
  constexpr std::uint16_t none = 0;
  const auto begin = static_cast<std::uint32_t>(position_), size = static_cast<std::uint32_t>(directory_.size());
  write(directory_);
  write(packed(directory_end, none, none, count_, count_, size, begin, none));
}

}  // namespace babelring

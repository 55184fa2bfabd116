// The format: PKWARE's APPNOTE.TXT 6.3.
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "base/failure.h"
#include "base/log.h"
#include "nmt/interop/npz.h"

namespace babelring {

static_assert(std::endian::native == std::endian::little, "the numbers of the format are little-endian");

namespace {

constexpr std::uint32_t local_signature = 0x04034b50, entry_signature = 0x02014b50, end_signature = 0x06054b50,
                        end64_signature = 0x06064b50, locator64_signature = 0x07064b50;
constexpr std::uint32_t in_extra_field = 0xffffffff;  // a number that zip64's extra field has
constexpr std::uint64_t deflate_factor = 1032;        // bytes that a byte of deflate gives at most

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Takes numbers and bytes from a part of an archive, one after the other.
class ZipFields {
 public:
  ZipFields(std::span<const std::byte> bytes, std::string_view file, std::string_view part)
      : bytes_(bytes), file_(file), part_(part) {}

  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > bytes_.size()) {
      fail("{}: {} is cut: expected {} bytes more, {} are left", file_, part_, size, bytes_.size());
    }
    const std::span<const std::byte> taken = bytes_.first(static_cast<std::size_t>(size));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  void expect(std::uint32_t signature) {
    if (number<std::uint32_t>() != signature) fail("{}: {} is damaged, or this is no zip archive", file_, part_);
  }
  bool is_empty() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  std::string_view file_, part_;
};

struct Directory {
  std::uint64_t begin = 0, size = 0, entries = 0;
};

/// The end of the archive, behind which a comment may follow.
std::optional<std::size_t> find_end(std::span<const std::byte> archive) {
  constexpr std::size_t end_bytes = 22, longest_comment = 65535;
  for (std::size_t behind = end_bytes; behind <= std::min(archive.size(), end_bytes + longest_comment); ++behind) {
    std::uint32_t signature = 0;
    std::uint16_t comment = 0;
    const std::size_t at = archive.size() - behind;
    std::memcpy(&signature, archive.data() + at, sizeof signature);
    std::memcpy(&comment, archive.data() + at + end_bytes - sizeof comment, sizeof comment);
    if (signature == end_signature && comment == behind - end_bytes) return at;
  }
  return std::nullopt;
}

Directory find_directory(std::span<const std::byte> archive, const std::string& file) {
  const std::optional<std::size_t> end = find_end(archive);
  if (!end) fail("{}: expected a zip archive, found no end of one: it is cut or something else", file);
  ZipFields fields(archive.subspan(*end), file, "the end of the archive");
  fields.expect(end_signature);
  const auto disk = fields.number<std::uint16_t>();
  fields.take(sizeof(std::uint16_t) * 2);
  Directory found;
  found.entries = fields.number<std::uint16_t>();
  found.size = fields.number<std::uint32_t>();
  found.begin = fields.number<std::uint32_t>();
  constexpr std::size_t locator_bytes = 20;
  const bool is_64 = found.begin == in_extra_field || found.size == in_extra_field || found.entries == 0xffff;
  if (is_64 && *end >= locator_bytes) {
    ZipFields locator(archive.subspan(*end - locator_bytes), file, "the locator of zip64");
    locator.expect(locator64_signature);
    locator.take(sizeof(std::uint32_t));
    const auto at = locator.number<std::uint64_t>();
    ZipFields end64(archive.subspan(static_cast<std::size_t>(std::min<std::uint64_t>(at, archive.size()))), file,
                    "the end of zip64");
    end64.expect(end64_signature);
    end64.take(28);
    found.entries = end64.number<std::uint64_t>();
    found.size = end64.number<std::uint64_t>();
    found.begin = end64.number<std::uint64_t>();
  } else if (disk != 0) {
    fail("{}: found a part of an archive of several disks, expected a whole one", file);
  }
  if (found.begin > *end || found.size > *end - found.begin) {
    fail("{}: the directory of the archive lies outside it: the file is cut or damaged", file);
  }
  return found;
}

/// Sizes and place of an entry, those of 32 bits or of zip64's extra field.
struct Place {
  std::uint64_t size = 0, stored = 0, offset = 0;
};

Place place_of(std::uint32_t stored, std::uint32_t size, std::uint32_t offset, ZipFields extra, std::string_view file) {
  Place place{.size = size, .stored = stored, .offset = offset};
  constexpr std::uint16_t zip64 = 1;
  while (!extra.is_empty()) {
    const auto id = extra.number<std::uint16_t>(), bytes = extra.number<std::uint16_t>();
    const std::span<const std::byte> content = extra.take(bytes);
    if (id != zip64) continue;
    ZipFields numbers(content, file, "zip64's extra field");
    for (std::uint64_t* number : {&place.size, &place.stored, &place.offset}) {
      if (*number == in_extra_field && !numbers.is_empty()) *number = numbers.number<std::uint64_t>();
    }
  }
  return place;
}

/// Where the bytes of an entry lie: behind its local header, and before the directory.
std::span<const std::byte> stored_bytes(std::span<const std::byte> before_directory, const Place& place,
                                        std::string_view name, std::string_view file) {
  const std::string part = printable(name);
  const auto begin = static_cast<std::size_t>(std::min<std::uint64_t>(place.offset, before_directory.size()));
  ZipFields header(before_directory.subspan(begin), file, part);
  header.expect(local_signature);
  header.take(22);
  const auto name_bytes = header.number<std::uint16_t>(), extra_bytes = header.number<std::uint16_t>();
  if (text_of(header.take(name_bytes)) != name) fail("{}: {} has another name in its header", file, part);
  header.take(extra_bytes);
  return header.take(place.stored);
}

/// The next entry of the directory.
ZipReader::Entry next_entry(ZipFields& fields, std::span<const std::byte> before_directory, const std::string& file) {
  fields.expect(entry_signature);
  const auto system = fields.number<std::uint16_t>();
  fields.take(sizeof(std::uint16_t));
  const auto flags = fields.number<std::uint16_t>(), method = fields.number<std::uint16_t>();
  fields.take(sizeof(std::uint32_t));  // the date
  ZipReader::Entry entry;
  entry.crc = fields.number<std::uint32_t>();
  const auto stored = fields.number<std::uint32_t>(), size = fields.number<std::uint32_t>();
  const auto name_bytes = fields.number<std::uint16_t>(), extra_bytes = fields.number<std::uint16_t>(),
             comment_bytes = fields.number<std::uint16_t>();
  fields.take(sizeof(std::uint16_t) * 2);
  const auto attributes = fields.number<std::uint32_t>(), offset = fields.number<std::uint32_t>();
  entry.name = text_of(fields.take(name_bytes));
  const ZipFields extra(fields.take(extra_bytes), file, "the extra field of an entry");
  fields.take(comment_bytes);
  const std::string name = printable(entry.name);
  if ((flags & 1) != 0) fail("{}: {} is encrypted, expected a plain archive", file, name);
  if (method != Z_DEFLATED && method != 0) {
    fail("{}: {} is compressed by method {}, expected stored or deflated", file, name, method);
  }
  entry.is_deflated = method != 0;
  constexpr unsigned unix_system = 3, type_mask = 0170000, link_type = 0120000;
  entry.is_link = system >> 8 == unix_system && (attributes >> 16 & type_mask) == link_type;
  const Place place = place_of(stored, size, offset, extra, file);
  entry.size = place.size;
  entry.stored = stored_bytes(before_directory, place, entry.name, file);
  const bool is_possible =
      entry.is_deflated ? entry.size / deflate_factor <= entry.stored.size() : entry.size == entry.stored.size();
  if (!is_possible) {
    fail("{}: {} has {} bytes in the archive and {} as a file, which cannot be", file, name, entry.stored.size(),
         entry.size);
  }
  return entry;
}

std::uint32_t crc_of(std::span<const std::byte> bytes, std::uint32_t before = 0) {
  return static_cast<std::uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

/// Inflates in parts. Returns false if the stream is damaged or does not end with its input.
bool inflate_all(std::span<const std::byte> stored, const std::function<bool(std::span<const std::byte>)>& take) {
  z_stream stream{};
  constexpr int raw = -MAX_WBITS;
  if (inflateInit2(&stream, raw) != Z_OK) fail("zlib: no memory to inflate");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, inflateEnd);
  std::vector<std::byte> part(1 << 20);
  int state = Z_OK;
  for (std::span<const std::byte> rest = stored; state == Z_OK;) {
    constexpr std::size_t max_input = 1 << 30;
    const std::span<const std::byte> input = rest.first(std::min(rest.size(), max_input));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
    stream.avail_in = static_cast<uInt>(input.size());
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    state = inflate(&stream, Z_NO_FLUSH);
    rest = rest.subspan(input.size() - stream.avail_in);
    if (!take(std::span<const std::byte>(part).first(part.size() - stream.avail_out))) return false;
    if (state == Z_STREAM_END) return rest.empty();
  }
  return false;
}

}  // namespace

ZipReader::ZipReader(std::span<const std::byte> archive, std::string file) : archive_(archive), file_(std::move(file)) {
  const Directory directory = find_directory(archive, file_);
  const auto begin = static_cast<std::size_t>(directory.begin);
  ZipFields fields(archive.subspan(begin, static_cast<std::size_t>(directory.size)), file_,
                   "the directory of the archive");
  std::set<std::string> names;
  while (!fields.is_empty()) {
    entries_.push_back(next_entry(fields, archive.first(begin), file_));
    const std::string& name = entries_.back().name;
    if (!names.insert(name).second) fail("{}: {} is there twice", file_, printable(name));
  }
  if (entries_.size() != directory.entries) {
    fail("{}: the directory has {} entries, its end says {}", file_, entries_.size(), directory.entries);
  }
}

const ZipReader::Entry* ZipReader::find(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

void ZipReader::read(const Entry& entry, const std::function<void(std::span<const std::byte>)>& take) const {
  const auto require = [&](bool holds, std::string_view what) {
    if (!holds) fail("{}: {} is damaged: {}", file_, printable(entry.name), what);
  };
  if (!entry.is_deflated) {
    require(crc_of(entry.stored) == entry.crc, "its CRC is another");
    return take(entry.stored);
  }
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  const bool is_whole = inflate_all(entry.stored, [&](std::span<const std::byte> part) {
    size += part.size();
    if (size > entry.size) return false;
    crc = crc_of(part, crc);
    take(part);
    return true;
  });
  require(is_whole && size == entry.size, fmt::format("it does not inflate to its {} bytes", entry.size));
  require(crc == entry.crc, "its CRC is another");
}

std::string ZipReader::text(const Entry& entry, std::uint64_t max_bytes) const {
  if (entry.size > max_bytes) {
    fail("{}: {} has {} bytes, expected at most {}", file_, printable(entry.name), entry.size, max_bytes);
  }
  std::string text;
  text.reserve(static_cast<std::size_t>(entry.size));
  read(entry, [&](std::span<const std::byte> part) { text += text_of(part); });
  return text;
}

}  // namespace babelring

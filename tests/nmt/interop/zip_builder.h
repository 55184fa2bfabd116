#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace babelring {

/// A zip archive for tests, which may be wrong in each of its fields.
class ZipBuilder {
 public:
  struct Options {
    bool is_deflated = false;
    std::optional<std::uint32_t> size = {};  // instead of the true one
    std::uint16_t flags = 0;
    std::optional<std::uint16_t> method = {};
    std::string name_in_header = {};
    std::uint32_t mode = 0;  // of Unix
  };

  ZipBuilder& add(const std::string& name, const std::string& content) { return add(name, content, Options()); }
  ZipBuilder& add(const std::string& name, const std::string& content, const Options& options) {
    const std::string stored = options.is_deflated ? deflated(content) : content;
    const auto crc = static_cast<std::uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
    const auto size = options.size.value_or(static_cast<std::uint32_t>(content.size()));
    const auto stored_size = static_cast<std::uint32_t>(stored.size()),
               offset = static_cast<std::uint32_t>(files_.size());
    const std::uint16_t method = options.method.value_or(options.is_deflated ? 8 : 0);
    const std::string in_header = options.name_in_header.empty() ? name : options.name_in_header;
    number(files_, 0x04034b50U), number(files_, std::uint16_t{20}), number(files_, options.flags);
    number(files_, method), number(files_, 0U), number(files_, crc), number(files_, stored_size), number(files_, size);
    number(files_, static_cast<std::uint16_t>(in_header.size())), number(files_, std::uint16_t{0});
    files_ += in_header + stored;
    const std::uint32_t all = 0xffffffff;
    number(directory_, 0x02014b50U), number(directory_, std::uint16_t{3 << 8 | 20}),
        number(directory_, std::uint16_t{20});
    number(directory_, options.flags), number(directory_, method), number(directory_, 0U), number(directory_, crc);
    number(directory_, with_zip64 ? all : stored_size), number(directory_, with_zip64 ? all : size);
    number(directory_, static_cast<std::uint16_t>(name.size()));
    number(directory_, static_cast<std::uint16_t>(with_zip64 ? 28 : 0)), number(directory_, std::uint16_t{0});
    number(directory_, 0U), number(directory_, options.mode << 16), number(directory_, with_zip64 ? all : offset);
    directory_ += name;
    if (with_zip64) {
      number(directory_, std::uint16_t{1}), number(directory_, std::uint16_t{24});
      number(directory_, std::uint64_t{size}), number(directory_, std::uint64_t{stored_size});
      number(directory_, std::uint64_t{offset});
    }
    ++entries_;
    return *this;
  }
  std::string archive() const {
    std::string result = files_ + directory_;
    const auto entries = static_cast<std::uint16_t>(entries_ + more_entries);
    const std::uint64_t begin = files_.size(), end = result.size(), size = directory_.size();
    if (with_zip64) {
      number(result, 0x06064b50U), number(result, std::uint64_t{44}), number(result, 0U),
          number(result, std::uint64_t{0});
      number(result, std::uint64_t{entries}), number(result, std::uint64_t{entries}), number(result, size);
      number(result, begin);
      number(result, 0x07064b50U), number(result, 0U), number(result, end), number(result, 1U);
    }
    const auto field = [&](std::uint64_t value) {
      return with_zip64 ? 0xffffffffU : static_cast<std::uint32_t>(value);
    };
    number(result, 0x06054b50U), number(result, 0U), number(result, entries), number(result, entries);
    number(result, field(size)), number(result, field(begin)), number(result, std::uint16_t{0});
    return result;
  }

  bool with_zip64 = false;
  std::uint16_t more_entries = 0;  // than there are

 private:
  template <class T>
  static void number(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static std::string deflated(const std::string& content) {
    z_stream stream{};
    deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    std::string result(deflateBound(&stream, content.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
    stream.avail_in = static_cast<uInt>(content.size());
    stream.next_out = reinterpret_cast<Bytef*>(result.data());
    stream.avail_out = static_cast<uInt>(result.size());
    deflate(&stream, Z_FINISH);
    result.resize(stream.total_out);
    deflateEnd(&stream);
    return result;
  }

  std::string files_, directory_;
  std::uint16_t entries_ = 0;
};

/// The content of an .npy file.
inline std::string npy(const std::string& header, const std::string& data, unsigned version = 1) {
  std::string result = "\x93NUMPY";
  result += {static_cast<char>(version), '\0'};
  const auto size = static_cast<std::uint32_t>(header.size());
  result.append(reinterpret_cast<const char*>(&size), version == 1 ? 2 : 4);
  return result + header + data;
}

}  // namespace babelring

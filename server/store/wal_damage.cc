#include "server/store/wal_damage.h"

#include <bit>
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>

namespace babelring::store {
namespace {

constexpr std::size_t header_bytes = 32, frame_header_bytes = 24;
constexpr std::uint32_t magic = 0x377f0682;  // the lowest bit tells the byte order of the checksum's words

std::uint32_t big_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

struct Checksum {
  std::uint32_t first = 0, second = 0;
  bool operator==(const Checksum&) const = default;

  static Checksum read(std::string_view bytes, std::size_t at) {
    return {big_endian(bytes, at), big_endian(bytes, at + 4)};
  }
  /// The sum continued over `bytes`, a multiple of eight.
  Checksum over(std::string_view bytes, bool words_are_big_endian) const {
    Checksum sum = *this;
    const auto word = [&](std::size_t at) {
      const std::uint32_t value = big_endian(bytes, at);
      return words_are_big_endian ? value : __builtin_bswap32(value);
    };
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      sum.first += word(at) + sum.second;
      sum.second += word(at + 4) + sum.first;
    }
    return sum;
  }
};

/// Reads the frames of a log one after the other.
class WalFrames {
 public:
  explicit WalFrames(const std::filesystem::path& wal) : in_(wal, std::ios::binary), header_(header_bytes, '\0') {
    if (!in_.read(header_.data(), header_bytes)) header_.clear();
    if (header_.empty()) return;
    sum_ = Checksum{}.over(std::string_view(header_).substr(0, 24), big_endian_words());
    const std::uint32_t page = big_endian(header_, 8);
    if (std::has_single_bit(page) && page >= 512 && page <= 65536) page_bytes_ = page;
  }
  bool has_header() const { return !header_.empty(); }
  bool header_is_sound() const {
    return (big_endian(header_, 0) & ~std::uint32_t{1}) == magic && sum_ == Checksum::read(header_, 24);
  }
  bool next() {
    frame_.resize(frame_header_bytes + page_bytes_);
    return static_cast<bool>(in_.read(frame_.data(), static_cast<std::streamsize>(frame_.size())));
  }
  /// Continues the checksum over the present frame and compares it.
  bool frame_is_sound() {
    const std::string_view frame = frame_;
    sum_ = sum_.over(frame.substr(0, 8), big_endian_words()).over(frame.substr(frame_header_bytes), big_endian_words());
    return salt() == header_salt() && big_endian(frame, 0) != 0 && sum_ == Checksum::read(frame, 16);
  }
  /// Other salts are of an earlier log in the same file.
  std::string_view salt() const { return std::string_view(frame_).substr(8, 8); }
  std::string_view header_salt() const { return std::string_view(header_).substr(16, 8); }
  bool ends_transaction() const { return big_endian(frame_, 4) != 0; }

 private:
  bool big_endian_words() const { return (big_endian(header_, 0) & 1) != 0; }

  std::ifstream in_;
  std::string header_, frame_;
  std::size_t page_bytes_ = 8192;  // of our databases, if the header has none
  Checksum sum_;
};

}  // namespace

std::optional<WalDamage> find_wal_damage(const std::filesystem::path& wal) {
  WalFrames frames(wal);
  if (!frames.has_header()) return std::nullopt;
  WalDamage damage;
  bool sound = frames.header_is_sound();
  std::string salt(frames.header_salt());
  std::int64_t behind = 0;  // frames of this log behind the damaged one
  while (frames.next()) {
    const std::int64_t number = damage.frames + 1;
    if (number == 1 && !sound) salt = frames.salt();  // the header's may be what is damaged
    if (sound) {
      if (frames.frame_is_sound()) {
        damage.frames = number;
        continue;
      }
      sound = false;
      damage.frame = number;
      damage.frames = number;
      if (frames.salt() == salt && frames.ends_transaction()) ++damage.transactions;
      continue;
    }
    ++damage.frames;
    if (frames.salt() != salt) continue;
    ++behind;
    if (frames.ends_transaction()) ++damage.transactions;
  }
  if (sound || behind == 0 || damage.transactions == 0) return std::nullopt;
  return damage;
}

}  // namespace babelring::store

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/failure.h"

namespace babelring {

// The wire format of protobuf: https://protobuf.dev/programming-guides/encoding. Not by libprotobuf: Debian 12's
// libsentencepiece contains and exports an older version of it, and the two crash in one process.

/// A message under construction.
class ProtobufMessage {
 public:
  ProtobufMessage& integer(int field, std::int64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtobufMessage& number(int field, float value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 5);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  ProtobufMessage& double_number(int field, double value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 1);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  ProtobufMessage& bytes(int field, std::string_view value) {
    length(field, value.size());
    bytes_ += value;
    return *this;
  }
  ProtobufMessage& message(int field, const ProtobufMessage& value) { return bytes(field, value.bytes_); }
  /// Whole fields of another message.
  ProtobufMessage& whole(std::string_view fields) {
    bytes_ += fields;
    return *this;
  }
  /// The beginning of a field of `size` bytes that follow.
  ProtobufMessage& length(int field, std::size_t size) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(size);
    return *this;
  }
  const std::string& text() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

/// Reads the fields of a message in their order:
///
///     for (ProtobufReader reader(bytes); reader.next();) if (reader.field() == 1) use(reader.bytes());
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  /// Goes on to the next field; false at the end. Throws Failure if the message ends inside a field.
  bool next() {
    if (rest_.empty()) return false;
    begin_ = rest_;
    const std::uint64_t key = varint();
    field_ = static_cast<int>(key >> 3);
    integer_ = 0;
    switch (key & 7) {
      case 0:
        integer_ = varint();
        bytes_ = {};
        return true;
      case 1:
        bytes_ = take(8);
        return true;
      case 2:
        bytes_ = take(varint());
        return true;
      case 5:
        bytes_ = take(4);
        return true;
      default:
        fail("protobuf: found wire type {}, expected 0, 1, 2 or 5", key & 7);
    }
  }
  int field() const { return field_; }
  std::uint64_t integer() const { return integer_; }
  /// The field with its number.
  std::string_view whole() const { return begin_.substr(0, begin_.size() - rest_.size()); }
  /// The bytes of a string or a message.
  std::string_view bytes() const { return bytes_; }
  /// 0 if the field is no float or, for `double`, no double.
  template <class Number = float>
  Number number() const {
    Number value = 0;
    if (bytes_.size() == sizeof value) std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }

 private:
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) fail("protobuf: a field has {} bytes, {} are left", size, rest_.size());
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail("protobuf: an integer has more than 64 bits");
  }

  std::string_view rest_, begin_, bytes_;
  int field_ = 0;
  std::uint64_t integer_ = 0;
};

static_assert(std::endian::native == std::endian::little, "the numbers of the wire format are little-endian");

}  // namespace babelring

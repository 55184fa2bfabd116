#include "base/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <string>

namespace babelring {
namespace {

/// Decompresses one gzip member, as readers do that know no second: zlib's independent side of the format.
std::string unzip(std::string packed) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return "no zlib";
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  int code = Z_OK;
  while (code == Z_OK) {
    char block[100];
    stream.next_out = reinterpret_cast<Bytef*>(block);
    stream.avail_out = sizeof block;
    code = inflate(&stream, Z_NO_FLUSH);
    text.append(block, sizeof block - stream.avail_out);
  }
  inflateEnd(&stream);
  if (code != Z_STREAM_END) return "damaged";
  return stream.avail_in == 0 ? text : "bytes after the member";
}

TEST(Gzip, IsReadBack) {
  std::string all_bytes;
  for (std::int64_t i = 0; i < 100'000; ++i) all_bytes += static_cast<char>(i * i % 251);
  for (const std::string& text : {std::string(), std::string("a"), std::string(100'000, 'x'), all_bytes}) {
    const std::string packed = gzip(text);
    EXPECT_EQ(packed.substr(0, 2), "\x1f\x8b");
    EXPECT_TRUE(unzip(packed) == text) << text.size();
  }
  EXPECT_LT(gzip(std::string(100'000, 'x')).size(), 1000U);
}

TEST(Gzip, EqualTextsHaveEqualBytes) {
  EXPECT_EQ(gzip("the cat"), gzip("the cat")) << "no time stamp";
}

TEST(Gzip, PartsJoinToOneMember) {
  GzipMember member;
  std::string whole;
  for (const std::string& text :
       {std::string("the cat "), std::string(), std::string(70'000, 'x'), std::string("sat")}) {
    member.add(gzip_part(text));
    whole += text;
  }
  EXPECT_TRUE(unzip(member.finish()) == whole);
  EXPECT_EQ(unzip(GzipMember().finish()), "") << "a member without parts";
}

TEST(Gzip, ATornMemberIsFound) {
  const std::string packed = gzip("the cat sat on the mat");
  EXPECT_EQ(unzip(packed.substr(0, packed.size() - 1)), "damaged");
}

}  // namespace
}  // namespace babelring

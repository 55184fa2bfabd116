#include "base/base64.h"

#include <gtest/gtest.h>

#include "base/digest.h"

namespace babelring {
namespace {

TEST(Base64, EncodesTheExamplesOfTheRfc) {
  EXPECT_EQ(base64_of_hex(""), "");
  EXPECT_EQ(base64_of_hex("66"), "Zg==");
  EXPECT_EQ(base64_of_hex("666f"), "Zm8=");
  EXPECT_EQ(base64_of_hex("666f6f"), "Zm9v");
  EXPECT_EQ(base64_of_hex("666f6f626172"), "Zm9vYmFy");
  EXPECT_EQ(base64_of_hex("fbff"), "+/8=");
}

TEST(Base64, EncodesADigest) {
  EXPECT_EQ(base64_of_hex(sha256_hex("")), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

}  // namespace
}  // namespace babelring

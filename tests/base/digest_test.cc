#include "base/digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/files.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// FIPS 180-4 examples.
constexpr const char* digest_of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* digest_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex(""), digest_of_nothing);
  EXPECT_EQ(sha256_hex("abc"), digest_of_abc);
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, IncrementalEqualsOneShot) {
  Sha256 digest;
  digest.add("a").add("").add("b");
  Sha256 moved = std::move(digest);
  EXPECT_EQ(moved.add("c").hex(), digest_of_abc);
}

TEST(Sha256, CannotBeUsedAfterHex) {
  Sha256 digest;
  EXPECT_EQ(digest.hex(), digest_of_nothing);
  EXPECT_THAT([&] { digest.hex(); }, ThrowsMessage<Failure>("sha256: hex() called twice"));
  EXPECT_THAT([&] { digest.add("x"); }, ThrowsMessage<Failure>("sha256: bytes added after hex()"));
}

TEST(Sha256, HashesAFile) {
  const std::filesystem::path file = testing::TempDir() + "digest_test." + std::to_string(::getpid());
  const std::string content(300001, 'x');
  write_file_atomically(file, content);
  EXPECT_EQ(sha256_file(file), sha256_hex(content));
  std::filesystem::remove(file);
  EXPECT_THAT([&] { sha256_file(file); },
              ThrowsMessage<Failure>("sha256: cannot open " + file.string() + ": No such file or directory"));
  EXPECT_THAT([] { sha256_file("/"); }, ThrowsMessage<Failure>(HasSubstr("sha256: cannot read /: Is a directory")));
}

/// Test case 2 of RFC 4231.
TEST(Hmac, SignsAsTheStandardSays) {
  EXPECT_EQ(hmac_sha256_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace babelring

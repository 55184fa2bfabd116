#include "base/records/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/files.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

class EventFileTest : public testing::Test {
 protected:
  EventFileTest() { fs::remove_all(folder_); }
  ~EventFileTest() override { fs::remove_all(folder_); }
  const fs::path folder_ = testing::TempDir() + "event_file_test." + std::to_string(::getpid());
};

TEST(Crc32c, MatchesTheStandardsTestVectors) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  // RFC 3720, B.4: 32 bytes of zeros, of ones, and counting up.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string counting;
  for (int i = 0; i < 32; ++i) counting += static_cast<char>(i);
  EXPECT_EQ(crc32c(counting), 0x46dd794eu);
}

TEST_F(EventFileTest, WritesTheDocumentedFormat) {
  SummaryBytes summary;
  EXPECT_TRUE(summary.empty());
  summary.scalar("a", 1.0);
  // Summary.value (1, bytes) of: tag (1, bytes) "a", simple_value (2, fixed32) 1.0.
  EXPECT_EQ(summary.bytes(), std::string("\x0a\x08\x0a\x01\x61\x15\x00\x00\x80\x3f", 10));
  EventFile file(folder_, "host");
  ASSERT_TRUE(file.write(300, summary));
  const std::string content = read_file(file.path());
  ASSERT_GT(content.size(), 40u);
  EXPECT_EQ(content.substr(0, 8), std::string("\x1a\0\0\0\0\0\0\0", 8)) << "26 bytes: time 9, step 2, version 15";
  EXPECT_THAT(content, testing::HasSubstr("brain.Event:2"));
  EXPECT_THAT(content, testing::HasSubstr(std::string("\x10\xac\x02\x2a\x0a", 5) + summary.bytes()))
      << "step 300 as a varint, summary of 10 bytes";
}

TEST_F(EventFileTest, FilesInOneFolderHaveDifferentNames) {
  const EventFile first(folder_, "host"), second(folder_ / "", "host2");
  EXPECT_NE(first.path(), second.path());
  EXPECT_THROW(EventFile("/proc/nowhere", "host"), Failure);
}

}  // namespace
}  // namespace babelring

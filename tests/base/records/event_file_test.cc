#include "base/records/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>

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

/// "tag@step=value" of each scalar.
std::vector<std::string> scalars_in(const fs::path& file) {
  std::vector<std::string> texts;
  for (const EventScalar& scalar : read_event_scalars(file)) {
    EXPECT_GT(scalar.seconds, 1e9);
    texts.push_back(fmt::format("{}@{}={:g}", scalar.tag, scalar.step, scalar.value));
  }
  return texts;
}

TEST_F(EventFileTest, ReadsWhatItWroteWithoutWhatARestartDoesAgain) {
  EventFile file(folder_, "host");
  for (const int step : {1, 2, 3}) {
    SummaryBytes summary;
    summary.scalar("loss", 10 - step);
    summary.text("note", "four");
    file.write(step, summary);
  }
  file.restart_at(3);
  SummaryBytes summary;
  summary.scalar("loss", 5);
  file.write(3, summary);
  EXPECT_THAT(scalars_in(file.path()), testing::ElementsAre("loss@1=9", "loss@2=8", "loss@3=5"));
}

/// tensorflow.summary writes a scalar as a tensor: of its numbers, or of bytes.
TEST_F(EventFileTest, ReadsTensorsOfOneNumber) {
  const auto value = [](const char* tag, const ProtobufMessage& tensor) {
    return ProtobufMessage().message(1, ProtobufMessage().bytes(1, tag).message(8, tensor)).text();
  };
  const float numbers[] = {2.5f, 3.5f};
  const double number = 0.125;
  const std::string_view floats(reinterpret_cast<const char*>(numbers), sizeof numbers),
      precise(reinterpret_cast<const char*>(&number), sizeof number);
  const std::string summary = value("a", ProtobufMessage().integer(1, 1).bytes(5, floats.substr(0, 4))) +
                              value("b", ProtobufMessage().integer(1, 2).bytes(4, precise)) +
                              value("c", ProtobufMessage().integer(1, 1).number(5, 1.5f)) +
                              value("histogram", ProtobufMessage().integer(1, 1).bytes(5, floats));
  EventFile file(folder_, "host");
  file.write_graph("");  // no scalars
  const std::string before = read_file(file.path());
  const std::string event = ProtobufMessage().double_number(1, 2e9).integer(2, 7).bytes(5, summary).text();
  const auto masked = [](std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; };
  const auto add = [](std::string& to, auto part) { to.append(reinterpret_cast<const char*>(&part), sizeof part); };
  std::string length, record = before;
  add(length, static_cast<std::uint64_t>(event.size()));
  record += length;
  add(record, masked(length));
  record += event;
  add(record, masked(event));
  write_file_atomically(folder_ / "tensors", record);
  EXPECT_THAT(scalars_in(folder_ / "tensors"), testing::ElementsAre("a@7=2.5", "b@7=0.125", "c@7=1.5"));
}

TEST_F(EventFileTest, EndsBeforeATornRecordAndNamesTheByteOfADamagedOne) {
  EventFile file(folder_, "host");
  std::vector<std::size_t> sizes = {fs::file_size(file.path())};
  for (const int step : {1, 2}) {
    SummaryBytes summary;
    summary.scalar("loss", step);
    file.write(step, summary);
    sizes.push_back(fs::file_size(file.path()));
  }
  const std::string content = read_file(file.path());
  for (std::size_t size = sizes[1]; size < sizes[2]; ++size) {
    write_file_atomically(folder_ / "torn", content.substr(0, size));
    ASSERT_THAT(scalars_in(folder_ / "torn"), testing::ElementsAre("loss@1=1")) << size;
  }
  for (std::size_t at = sizes[0]; at < sizes[1]; ++at) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write_file_atomically(folder_ / "damaged", damaged);
    ASSERT_THAT([&] { read_event_scalars(folder_ / "damaged"); },
                testing::ThrowsMessage<UsageFailure>(testing::HasSubstr(fmt::format("byte {}: found", sizes[0]))))
        << at;
  }
  EXPECT_TRUE(begins_event_file(content));
  EXPECT_FALSE(begins_event_file("Step,Value\n1,2\n"));
}

}  // namespace
}  // namespace babelring

#include "worker/spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/atomic_file.h"
#include "base/failure.h"
#include "tests/worker/full_disk.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::ThrowsMessage;

class SpoolTest : public testing::Test {
 protected:
  SpoolTest() { fs::remove_all(folder_); }
  ~SpoolTest() override { fs::remove_all(folder_); }

  static Record record(std::int64_t sequence, std::int64_t attempt = 1) {
    RecordHeader header{.run = "r_01J0000000000000000000000Z", .attempt = attempt, .sequence = sequence};
    return {header, LogRecord{"info", "text " + std::to_string(sequence)}};
  }
  void write(int count) const {
    SpoolWriter writer(file_);
    for (int i = 0; i < count; ++i) writer.append(record(writer.next_sequence()));
  }
  void damage(const std::string& tail) const { std::ofstream(file_, std::ios::app | std::ios::binary) << tail; }

  const fs::path folder_ = testing::TempDir() + "spool_test." + std::to_string(::getpid());
  const fs::path file_ = spool_path(folder_, 3, 12);
};

TEST_F(SpoolTest, PathContainsAttemptAndRank) {
  EXPECT_EQ(file_, folder_ / "attempt-3" / "rank-12.jsonl");
}

TEST_F(SpoolTest, ReadsBackWhatWasWritten) {
  write(3);
  SpoolReader reader(file_);
  EXPECT_EQ(reader.remaining(), 3);
  const auto batch = reader.next(100, 1 << 20);
  ASSERT_EQ(batch.records.size(), 3U);
  EXPECT_EQ(batch.records[2].header.sequence, 3);
  EXPECT_EQ(std::get<LogRecord>(batch.records[1].body).text, "text 2");
  reader.acknowledge(batch);
  EXPECT_EQ(reader.next(100, 1 << 20).lines, 0);
}

TEST_F(SpoolTest, BatchesRespectLimitsButHaveAtLeastOneRecord) {
  write(10);
  SpoolReader reader(file_);
  EXPECT_EQ(reader.next(4, 1 << 20).records.size(), 4U);
  EXPECT_EQ(reader.next(100, 1).records.size(), 1U);
  const std::size_t line = read_file(file_).find('\n') + 1;
  EXPECT_EQ(reader.next(100, 2 * line + 5).records.size(), 2U);
}

TEST_F(SpoolTest, AcknowledgedOffsetSurvives) {
  write(5);
  {
    SpoolReader reader(file_);
    reader.acknowledge(reader.next(2, 1 << 20));
    reader.save_acknowledged();
  }
  SpoolReader reader(file_);
  EXPECT_EQ(reader.remaining(), 3);
  EXPECT_EQ(reader.next(100, 1 << 20).records.front().header.sequence, 3);
}

TEST_F(SpoolTest, WrongAcknowledgedOffsetSendsAllAgain) {
  write(5);
  for (const char* text : {"", "x\n", "-5\n", "7\n", "99999999\n", "0"}) {
    write_file_atomically(fs::path(file_).replace_extension(".ack"), text);
    EXPECT_EQ(SpoolReader(file_).remaining(), 5) << text;
  }
}

TEST_F(SpoolTest, TornLastLineIsDroppedAtEveryLength) {
  write(3);
  const std::string whole = read_file(file_);
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t length = last; length < whole.size(); ++length) {
    std::ofstream(file_, std::ios::binary) << whole.substr(0, length);
    EXPECT_EQ(SpoolReader(file_).remaining(), 2);
    SpoolWriter writer(file_);
    ASSERT_EQ(writer.next_sequence(), 3);
    ASSERT_EQ(read_file(file_), whole.substr(0, last));
  }
}

TEST_F(SpoolTest, DamagedLineIsSkipped) {
  write(1);
  damage("{\"torn\":\n[]\n");
  SpoolReader reader(file_);
  const auto batch = reader.next(100, 1 << 20);
  EXPECT_EQ(batch.records.size(), 1U);
  EXPECT_EQ(batch.lines, 3);
  reader.acknowledge(batch);
  EXPECT_EQ(reader.remaining(), 0);
}

TEST_F(SpoolTest, BatchEndsWhereTheAttemptChanges) {
  SpoolWriter writer(file_);
  writer.append(record(1, 1));
  writer.append(record(2, 2));
  SpoolReader reader(file_);
  EXPECT_EQ(reader.next(100, 1 << 20).records.size(), 1U);
}

TEST_F(SpoolTest, SecondWriterIsRefused) {
  const SpoolWriter writer(file_);
  EXPECT_THAT([&] { SpoolWriter second(file_); },
              ThrowsMessage<Failure>("spool " + file_.string() + ": in use by another process"));
}

TEST_F(SpoolTest, FolderThatCannotBeCreatedIsAFailure) {
  EXPECT_THAT([] { SpoolWriter writer("/proc/none/rank-0.jsonl"); },
              ThrowsMessage<Failure>("spool /proc/none/rank-0.jsonl: cannot open: No such file or directory"));
}

TEST_F(SpoolTest, FullDiskKeepsRecordsInMemory) {
  SpoolWriter writer(file_, std::size_t{1} << 20, std::chrono::milliseconds(0));
  writer.append(record(1));
  const std::string whole = read_file(file_);
  {
    const FullDisk full(file_);
    for (const std::int64_t sequence : {2, 3}) writer.append(record(sequence));
    EXPECT_EQ(writer.last_write().error(), "File too large");
    EXPECT_EQ(writer.next_sequence(), 4);
    EXPECT_EQ(writer.kept_records(), 2);
    EXPECT_EQ(read_file(file_), whole) << "whole lines";
  }
  writer.append(record(4));
  EXPECT_TRUE(writer.last_write().ok());
  EXPECT_EQ(writer.kept_records(), 0);
  EXPECT_EQ(writer.dropped(), 0);
  const auto batch = SpoolReader(file_).next(100, 1 << 20);
  ASSERT_EQ(batch.records.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(batch.records[i].header.sequence, static_cast<std::int64_t>(i) + 1);
}

TEST_F(SpoolTest, MemoryIsBoundedAndDroppedRecordsHaveNoSequence) {
  constexpr std::size_t max_bytes = 8000;
  SpoolWriter writer(file_, max_bytes, std::chrono::milliseconds(0));
  writer.append(record(1));
  const FullDisk full(file_);
  std::int64_t tried = 0;
  while (writer.dropped() < 5) {
    ++tried;
    writer.append(record(writer.next_sequence()));
  }
  EXPECT_EQ(writer.next_sequence(), 2 + tried - 5);
  EXPECT_GT(tried, 20);
  Record rare = record(writer.next_sequence());
  rare.body = LifecycleRecord{.event = "finished"};
  writer.append(rare);
  EXPECT_EQ(writer.dropped(), 5) << "there is still room for rare records";
  const std::vector<Record> kept = writer.kept(3, max_bytes);
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept[2].header.sequence, 4);
  EXPECT_EQ(writer.kept(1000, 1).size(), 1U);
  writer.forget_kept(4);
  EXPECT_EQ(writer.kept(1, max_bytes).front().header.sequence, 5);
}

/// Records that were sent from memory are not in the file.
TEST_F(SpoolTest, SequenceContinuesAfterTheLastRecord) {
  {
    SpoolWriter writer(file_, std::size_t{1} << 20, std::chrono::milliseconds(0));
    writer.append(record(1));
    {
      const FullDisk full(file_);
      writer.append(record(2));
    }
    writer.forget_kept(2);
    writer.append(record(3));
  }
  EXPECT_EQ(SpoolWriter(file_).next_sequence(), 4);
}

TEST_F(SpoolTest, AbsentFileIsEmpty) {
  SpoolReader reader(file_);
  EXPECT_EQ(reader.remaining(), 0);
  EXPECT_EQ(reader.next(10, 100).lines, 0);
}

}  // namespace
}  // namespace babelring

#include "worker/spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "base/failure.h"
#include "base/files.h"
#include "base/records/spool_reader.h"
#include "tests/nmt/comm/fake_communicator.h"
#include "tests/soon.h"
#include "tests/worker/full_disk.h"
#include "tests/worker/log_capture.h"

namespace {

std::atomic<bool> disk_hangs = false;

}  // namespace

/// Instead of the C library's: writes to spools wait while the disk hangs.
extern "C" ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t at) {
  while (disk_hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ::syscall(SYS_pwrite64, file, data, bytes, at);
}

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
    for (int i = 0; i < count; ++i) append_one(writer);
  }
  /// append() keeps a record in memory where the disk is busy for 100 ms; this waits until it is in the file.
  static void append_one(SpoolWriter& writer) {
    writer.append(record(writer.next_sequence()));
    if (writer.kept_records() > 0) writer.write_kept();
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
  SpoolWriter writer(file_, {.max_kept_bytes = std::size_t{1} << 20, .between_trials = std::chrono::milliseconds(0)});
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

TEST_F(SpoolTest, AHungDiskStopsNobodyAndLosesNothing) {
  const LogCapture log;
  const SpoolLimits limits{.patience = std::chrono::milliseconds(10), .late = std::chrono::milliseconds(50)};
  SpoolWriter writer(file_, limits);
  writer.append(record(1));
  disk_hangs = true;
  for (const std::int64_t sequence : {2, 3, 4, 5}) writer.append(record(sequence));
  EXPECT_EQ(writer.next_sequence(), 6);
  EXPECT_EQ(writer.kept_records(), 4);
  EXPECT_TRUE(soon([&] { return log.count("spool " + file_.string() + ": a write has taken 0.05 s") == 1; }));
  EXPECT_TRUE(writer.stuck());
  const std::vector<Record> kept = writer.kept(2, 1 << 20);  // to send from memory
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[1].header.sequence, 3);
  writer.forget_kept(3);
  EXPECT_EQ(writer.kept(1, 1 << 20).front().header.sequence, 4);
  EXPECT_EQ(writer.kept_records(), 2);
  disk_hangs = false;
  writer.write_kept();
  EXPECT_EQ(writer.kept_records(), 0);
  EXPECT_EQ(writer.dropped(), 0);
  writer.append(record(6));
  std::vector<std::int64_t> written;
  for (const Record& each : SpoolReader(file_).next(100, 1 << 20).records) written.push_back(each.header.sequence);
  EXPECT_EQ(written, (std::vector<std::int64_t>{1, 2, 4, 5, 6})) << "2 was being written, 3 was sent from memory";
}

TEST_F(SpoolTest, AHungDiskMayTakeNoMoreThanTheLimit) {
  SpoolWriter writer(file_, {.max_kept_bytes = 2000, .patience = std::chrono::milliseconds(1)});
  disk_hangs = true;
  while (writer.dropped() == 0) writer.append(record(writer.next_sequence()));
  const std::int64_t kept = writer.kept_records();
  disk_hangs = false;
  writer.write_kept();
  EXPECT_EQ(SpoolReader(file_).remaining(), kept);
}

TEST_F(SpoolTest, AReleasedSpoolHasNoWriterButIsWritten) {
  SpoolWriter writer(file_);
  writer.append(record(1));
  writer.release();
  EXPECT_FALSE(has_writer(file_));
  writer.append(record(2));
  EXPECT_EQ(SpoolReader(file_).remaining(), 2);
}

TEST_F(SpoolTest, MemoryIsBoundedAndDroppedRecordsHaveNoSequence) {
  constexpr std::size_t max_bytes = 8000;
  SpoolWriter writer(file_, {.max_kept_bytes = max_bytes, .between_trials = std::chrono::milliseconds(0)});
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
    SpoolWriter writer(file_, {.max_kept_bytes = std::size_t{1} << 20, .between_trials = std::chrono::milliseconds(0)});
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

/// A spool of small parts, whose reader confirms all that it reads, by default at once.
class RotatedSpoolTest : public SpoolTest {
 protected:
  void append(int count) {
    for (int i = 0; i < count; ++i) append_one(writer_);
  }
  /// Sequences that a reader finds from its place on. It confirms them, and stores that.
  static std::vector<std::int64_t> confirm(SpoolReader& reader) {
    std::vector<std::int64_t> sequences;
    for (;;) {
      const auto batch = reader.next(7, 1 << 20);
      if (batch.lines == 0) break;
      for (const Record& each : batch.records) sequences.push_back(each.header.sequence);
      reader.acknowledge(batch);
    }
    reader.save_acknowledged();
    return sequences;
  }
  static std::vector<std::int64_t> numbers(std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> numbers;
    for (; first <= last; ++first) numbers.push_back(first);
    return numbers;
  }
  std::uintmax_t bytes() const {
    std::uintmax_t sum = 0;
    for (const fs::path& part : spool_parts(file_)) sum += fs::file_size(part);
    return sum;
  }

  static constexpr std::int64_t max_bytes = 4000;  // about 30 records
  SpoolWriter writer_{file_, {.max_bytes = max_bytes}};
};

TEST_F(RotatedSpoolTest, ConfirmedRecordsMakeRoom) {
  SpoolReader reader(file_);
  for (std::int64_t round = 0; round < 100; ++round) {
    append(5);
    EXPECT_EQ(confirm(reader), numbers(5 * round + 1, 5 * round + 5));
    EXPECT_LE(bytes(), static_cast<std::uintmax_t>(max_bytes) + 1000);
    EXPECT_EQ(reader.remaining(), 0);
  }
  EXPECT_EQ(spool_parts(file_).size(), 2U);
}

TEST_F(RotatedSpoolTest, UnconfirmedRecordsStay) {
  append(200);
  EXPECT_GT(bytes(), 4 * static_cast<std::uintmax_t>(max_bytes));
  SpoolReader reader(file_);
  EXPECT_EQ(reader.remaining(), 200);
  EXPECT_EQ(confirm(reader), numbers(1, 200));
  append(1);
  EXPECT_EQ(confirm(reader), numbers(201, 201));
}

TEST_F(RotatedSpoolTest, APlaceIsFoundAgainInEitherPart) {
  for (std::int64_t round = 0; round < 100; ++round) {
    append(5);
    SpoolReader reader(file_);
    EXPECT_EQ(reader.remaining(), 5);
    EXPECT_EQ(confirm(reader), numbers(5 * round + 1, 5 * round + 5));
  }
}

TEST_F(RotatedSpoolTest, AReaderThatLagsReadsTheOlderPartFirst) {
  append(10);
  SpoolReader reader(file_);
  EXPECT_EQ(reader.next(3, 1 << 20).records.size(), 3U);
  append(60);
  EXPECT_EQ(spool_parts(file_).size(), 2U);
  EXPECT_EQ(confirm(reader), numbers(1, 70));
}

TEST_F(RotatedSpoolTest, TheNextWriterContinuesTheSequence) {
  SpoolReader reader(file_);
  append(10);
  EXPECT_EQ(confirm(reader), numbers(1, 10));
  const fs::path copy = folder_ / "rank-13.jsonl";
  fs::copy_file(file_, older_part(copy));
  EXPECT_EQ(SpoolWriter(copy).next_sequence(), 11) << "an empty file beside an older part";
  const fs::path killed = folder_ / "rank-14.jsonl";  // killed between the two steps of a rotation
  fs::copy_file(file_, killed);
  fs::create_hard_link(killed, older_part(killed));
  EXPECT_EQ(SpoolReader(killed).remaining(), 10);
  EXPECT_EQ(SpoolWriter(killed).next_sequence(), 11);
  EXPECT_EQ(spool_parts(killed).size(), 1U);
}

TEST_F(RotatedSpoolTest, AReaderGoesBackInEitherPart) {
  SpoolReader reader(file_);
  for (int round = 0; round < 12; ++round) {
    append(4);
    confirm(reader);
  }
  append(20);  // so that the older part cannot be removed
  const std::int64_t last = writer_.next_sequence() - 1;
  confirm(reader);
  ASSERT_EQ(spool_parts(file_).size(), 2U);
  EXPECT_EQ(last_spool_sequence(file_), last);
  const std::int64_t first = reader.seek(0);
  EXPECT_GT(first, 1) << "the first records are no longer there";
  for (std::int64_t sequence = first - 1; sequence <= last; ++sequence) {
    EXPECT_EQ(reader.seek(sequence), sequence + 1);
    reader.save_acknowledged();
    SpoolReader next(file_);  // finds the place by its mark
    EXPECT_EQ(next.remaining(), last - sequence);
    EXPECT_EQ(confirm(next), numbers(sequence + 1, last));
  }
  EXPECT_EQ(reader.seek(last + 7), last + 8);
  EXPECT_EQ(reader.remaining(), 0);
}

TEST_F(SpoolTest, GoesBackPastADamagedLineAndATornOne) {
  write(3);
  damage("{not JSON}\n");
  damage("{\"torn");
  EXPECT_EQ(last_spool_sequence(file_), 0) << "the last line is damaged";
  SpoolReader reader(file_);
  EXPECT_EQ(reader.seek(3), 4);
  EXPECT_EQ(reader.seek(1), 2);
  EXPECT_EQ(reader.next(10, 1 << 20).records.size(), 2U);
}

TEST_F(SpoolTest, SpoolsOfARunAreListedByAttemptAndRank) {
  for (const auto& [attempt, rank] : {std::pair{10, 0}, {2, 10}, {2, 9}}) {
    const SpoolWriter writer(spool_path(folder_, attempt, rank));
  }
  std::ofstream(older_part(spool_path(folder_, 2, 9))) << "older\n";
  std::ofstream(folder_ / "attempt-2" / "rank-9.ack") << "0 0\n";
  std::ofstream(folder_ / "notes.jsonl") << "\n";
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const SpoolFile& place : list_spools(folder_)) found.emplace_back(place.attempt, place.rank);
  EXPECT_EQ(found, (std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 9}, {2, 10}, {10, 0}}));
  EXPECT_TRUE(list_spools(folder_ / "absent").empty());
}

TEST_F(RotatedSpoolTest, TellsWhetherItHasAWriter) {
  EXPECT_TRUE(has_writer(file_));
  append(100);
  EXPECT_TRUE(has_writer(file_)) << "after a rotation";
  EXPECT_FALSE(has_writer(folder_ / "absent.jsonl"));
  const fs::path closed = folder_ / "rank-15.jsonl";
  {
    const SpoolWriter writer(closed);
  }
  EXPECT_FALSE(has_writer(closed));
}

TEST_F(SpoolTest, AbsentFileIsEmpty) {
  SpoolReader reader(file_);
  EXPECT_EQ(reader.remaining(), 0);
  EXPECT_EQ(reader.next(10, 100).lines, 0);
}

using testing::ElementsAre;
using testing::IsEmpty;

/// Ranks 0, 1 and 2 of four are on one host, where rank 2 has another folder. Rank 3 is on another host.
class FourRanks final : public FakeCommunicator {
 public:
  explicit FourRanks(int rank) : FakeCommunicator(nullptr, rank, {"hostA", "hostA", "hostA", "hostB"}) {}
  std::vector<std::string> all_gather(const std::string& text) override {
    std::vector<std::string> texts(4, rank() == 2 ? "another folder" : text);
    texts[2] = rank() == 2 ? text : "another folder";
    return texts;
  }
};

RecordSender chosen(int rank, const std::filesystem::path& folder) {
  FourRanks communicator(rank);
  return choose_record_sender(communicator, folder, 1);
}

TEST(RecordSender, IsTheFirstRankOfAHostThatSharesTheFolder) {
  const std::filesystem::path folder = testing::TempDir() + "record_sender_test." + std::to_string(::getpid());
  EXPECT_THAT(chosen(0, folder).served, ElementsAre(1));
  EXPECT_FALSE(chosen(0, folder).by);
  EXPECT_EQ(chosen(1, folder).by, 0);
  EXPECT_THAT(chosen(1, folder).served, IsEmpty());
  for (const int alone : {2, 3}) {
    EXPECT_THAT(chosen(alone, folder).served, IsEmpty()) << alone;
    EXPECT_FALSE(chosen(alone, folder).by) << alone;
  }
  EXPECT_TRUE(std::filesystem::is_directory(folder / "attempt-1"));
  std::filesystem::remove_all(folder);
}

TEST(RecordSender, ARankWithoutAFolderSendsItsOwn) {
  for (const int rank : {0, 1}) {
    EXPECT_THAT(chosen(rank, "/proc/none").served, IsEmpty());
    EXPECT_FALSE(chosen(rank, "/proc/none").by);
  }
}

}  // namespace

}  // namespace babelring

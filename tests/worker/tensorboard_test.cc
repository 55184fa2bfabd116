#include "worker/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

class TensorBoardTest : public testing::Test {
 protected:
  TensorBoardTest() { fs::remove_all(folder_); }
  ~TensorBoardTest() override { fs::remove_all(folder_); }
  const fs::path folder_ = testing::TempDir() + "tensorboard_test." + std::to_string(::getpid());
};

/// An event of these files, as far as TensorBoard's reader needs it to tell which events it shows.
struct ReadEvent {
  std::int64_t step = 0;
  bool starts = false;      // session_log.status START
  bool has_values = false;  // has a summary
};

std::uint64_t read_varint(std::string_view& bytes) {
  std::uint64_t number = 0;
  for (int shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return number;
}

/// Parses the fields of an `Event`: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log.
ReadEvent parse_event(std::string_view bytes) {
  ReadEvent event;
  while (!bytes.empty()) {
    const std::uint64_t tag = read_varint(bytes);
    if (tag == (1 << 3 | 1)) {
      bytes.remove_prefix(8);
    } else if (tag == (2 << 3 | 0)) {
      event.step = static_cast<std::int64_t>(read_varint(bytes));
    } else {
      const std::uint64_t size = read_varint(bytes);
      const std::string_view member = bytes.substr(0, size);
      event.starts |= tag == (7 << 3 | 2) && member == std::string_view("\x08\x01", 2);
      event.has_values |= tag == (5 << 3 | 2);
      bytes.remove_prefix(member.size());
    }
  }
  return event;
}

/// The steps that TensorBoard shows of the files in `folder`: it reads them in the order of their names, and a start
/// (session_log START) discards the events of its step and of later ones that were read before. With `ignores_first`,
/// as the reader of TensorBoard's page does, the first start discards nothing.
std::vector<std::int64_t> shown_steps(const fs::path& folder, bool ignores_first) {
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.insert(entry.path());
  std::vector<std::int64_t> steps;
  bool ignores = ignores_first;
  for (const fs::path& file : files) {
    const std::string content = read_file(file);
    for (std::size_t at = 0; at + 16 <= content.size();) {  // u64 length, u32 CRC, the event, u32 CRC
      std::uint64_t size = 0;
      std::memcpy(&size, content.data() + at, sizeof size);
      const ReadEvent event = parse_event(std::string_view(content).substr(at + 12, size));
      at += 16 + size;
      if (event.has_values) steps.push_back(event.step);
      if (event.starts && !std::exchange(ignores, false)) {
        std::erase_if(steps, [&](std::int64_t step) { return step >= event.step; });
      }
    }
  }
  return steps;
}

/// Waits for the next millisecond: a file's name contains the time in ms, so the next file gets another name.
void wait_for_another_millisecond() {
  for (const std::int64_t now = wall_time_ms(); wall_time_ms() == now;) std::this_thread::yield();
}

void write_steps(TensorBoard& board, std::int64_t first, std::int64_t last) {
  for (std::int64_t update = first; update <= last; ++update) board.write(StepRecord{.update = update});
}

TEST_F(TensorBoardTest, ARewindDiscardsLaterEvents) {
  TensorBoard board(folder_, "host", 0);
  write_steps(board, 1, 6);
  EXPECT_THAT(shown_steps(folder_, true), testing::ElementsAre(1, 2, 3, 4, 5, 6));
  board.write(LifecycleRecord{.event = "rewound", .update = 4});
  write_steps(board, 5, 6);
  for (const bool ignores_first : {false, true}) {
    EXPECT_THAT(shown_steps(folder_, ignores_first), testing::ElementsAre(1, 2, 3, 4, 5, 6)) << ignores_first;
  }
}

TEST_F(TensorBoardTest, AResumedRunReplacesTheUpdatesAfterItsCheckpoint) {
  {
    TensorBoard first(folder_, "host", 0);
    write_steps(first, 1, 6);
  }
  for (const std::int64_t checkpoint : {4, 5}) {  // a run that was interrupted twice
    wait_for_another_millisecond();
    TensorBoard next(folder_, "host", checkpoint);
    write_steps(next, checkpoint + 1, 7);
  }
  for (const bool ignores_first : {false, true}) {
    EXPECT_THAT(shown_steps(folder_, ignores_first), testing::ElementsAre(1, 2, 3, 4, 5, 6, 7)) << ignores_first;
  }
}

/// The group `train` has the losses of the updates, which are those of other sentences.
TEST_F(TensorBoardTest, TheTrainingSampleIsAGroupOfItsOwn) {
  TensorBoard board(folder_, "host", 0);
  board.write(EvalRecord{.update = 6, .set = "train", .loss = 2});
  board.write(EvalRecord{.update = 6, .set = "valid", .loss = 3});
  const std::string content = read_file(fs::directory_iterator(folder_)->path());
  EXPECT_THAT(content, testing::AllOf(testing::HasSubstr("train_sample/loss"), testing::HasSubstr("valid/loss"),
                                      testing::Not(testing::HasSubstr("train/loss"))));
}

TEST_F(TensorBoardTest, AFullDiskStopsEventsButNotTheRun) {
  TensorBoard board(folder_, "host", 0);
  std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit small{2000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  std::string said;
  {
    LogCapture log;
    for (int i = 1; i < 20; ++i) board.write(StepRecord{.update = i, .loss = std::nan("")});
    said = log.text();
    EXPECT_EQ(log.count("no more events are written"), 1) << said;
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(said, testing::HasSubstr("File too large"));
}

}  // namespace
}  // namespace babelring

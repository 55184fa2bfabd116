#include "server/store/writer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring::store {
namespace {

using babelring::testing::record_of;
using babelring::testing::run_id;
using babelring::testing::step_record;

const std::string other_run = "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3F";

/// A writer that does nothing until go().
class WriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::promise<void> begun;
    busy_ = std::thread([&] {
      writer_.execute([&](Database&) {
        begun.set_value();
        go_.get_future().wait();
      });
    });
    begun.get_future().wait();
  }
  void go() {
    go_.set_value();
    busy_.join();
  }
  bool submit(const std::string& run, std::vector<Record> records) {
    return writer_.submit({run, 1, 0, "h", std::move(records)}, [this](const Batch& batch, const IngestResult&) {
      const std::lock_guard lock(mutex_);
      order_.push_back({batch.run, writer_.revision()});
    });
  }
  struct Done {
    std::string run;
    std::uint64_t commit = 0;
  };
  std::vector<Done> wait_for(std::size_t batches) {
    EXPECT_TRUE(soon([&] {
      const std::lock_guard lock(mutex_);
      return order_.size() == batches;
    }));
    return order_;
  }
  std::vector<Record> many_steps(std::int64_t count, std::int64_t first) const {
    std::vector<Record> records;
    for (std::int64_t i = 0; i < count; ++i) records.push_back(step_record(first + i, first + i));
    return records;
  }

  babelring::testing::TemporaryFolder folder_;
  std::mutex mutex_;
  std::vector<Done> order_;
  std::promise<void> go_;
  std::thread busy_;
  Writer writer_{folder_.path() / "test.sqlite", false};
};

/// SQLite keeps the file of its write-ahead log at its largest size. A reader that stays makes it grow.
TEST_F(WriterTest, TheWriteAheadLogIsCutWhenALongReaderHasEnded) {
  go();
  const auto log_bytes = [&] { return std::filesystem::file_size(folder_.path() / "test.sqlite-wal"); };
  constexpr std::uintmax_t kept = 17 << 20;
  {
    Database reader(folder_.path() / "test.sqlite", Database::Mode::reader);
    reader.execute("BEGIN");
    reader.scalar("SELECT count(*) FROM runs");
    for (int i = 0; i < 8; ++i) {
      writer_.execute([](Database& database) {
        database.execute("CREATE TABLE IF NOT EXISTS filler(x); INSERT INTO filler VALUES (randomblob(4000000))");
      });
    }
    EXPECT_GT(log_bytes(), kept);
  }
  EXPECT_TRUE(soon([&] { return log_bytes() < kept; })) << log_bytes();
}

TEST_F(WriterTest, LargeBatchesOfARunDelayAnothersByOneCommit) {
  const auto large = static_cast<std::int64_t>(Writer::max_records_together);
  for (std::int64_t i = 0; i < 5; ++i) ASSERT_TRUE(submit(run_id, many_steps(large, 1 + i * large)));
  ASSERT_TRUE(submit(other_run, many_steps(1, 1)));
  go();
  const auto order = wait_for(6);
  const std::uint64_t first = order.front().commit;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i].run == other_run) {
      EXPECT_LE(order[i].commit, first + 1) << "place " << i;
    }
  }
  EXPECT_EQ(order.back().commit, first + 4) << "a large batch to a commit";
}

TEST_F(WriterTest, SmallBatchesAreCommittedTogether) {
  for (std::int64_t i = 1; i <= 40; ++i) ASSERT_TRUE(submit(i % 2 == 0 ? run_id : other_run, many_steps(1, i)));
  go();
  const auto order = wait_for(40);
  EXPECT_EQ(order.back().commit, order.front().commit);
}

TEST_F(WriterTest, ARunMayHoldHalfOfTheRoom) {
  const std::string text(1 << 20, 'x');
  const auto of_run = [&](const std::string& run) {
    std::size_t taken = 0;
    while (taken < 64 && submit(run, {record_of(LogRecord{.text = text}, static_cast<std::int64_t>(taken) + 1)})) {
      ++taken;
    }
    return taken;
  };
  EXPECT_EQ(of_run(run_id), 31u) << "32 MiB, with what is around the text";
  EXPECT_EQ(of_run(other_run), 31u);
  go();
  wait_for(62);
  EXPECT_TRUE(soon([&] { return submit(run_id, {record_of(LogRecord{.text = text}, 100)}); })) << "room is given back";
  wait_for(63);
}

TEST(Turns, GivesEachOwnerOneOfItsOldest) {
  Turns<int> turns;
  for (int i = 1; i <= 3; ++i) turns.push("many", i);
  turns.push("few", 10);
  EXPECT_EQ(turns.size_of("many"), 3u);
  std::vector<int> order;
  order.push_back(turns.pop());
  order.push_back(turns.pop());
  turns.push("late", 20);
  while (!turns.empty()) order.push_back(turns.pop());
  EXPECT_EQ(order, (std::vector<int>{1, 10, 2, 20, 3}));
  EXPECT_EQ(turns.size_of("many"), 0u);
}

}  // namespace

}  // namespace babelring::store

#include "server/store/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <fstream>
#include <future>
#include <thread>

#include "server/store/alerts.h"
#include "server/store/checkpoints.h"
#include "server/store/control.h"
#include "server/store/runs.h"
#include "server/store/sequence_set.h"
#include "server/store/series.h"
#include "tests/server/test_server.h"
#include "tests/soon.h"

namespace babelring::store {
namespace {

using babelring::testing::put;
using babelring::testing::record_of;
using babelring::testing::run_id;
using babelring::testing::step_record;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    store.reset();
    store = std::make_unique<Store>(folder.path());
  }
  std::vector<Record> steps(std::int64_t first, std::int64_t last, std::int64_t rank = 0, std::int64_t attempt = 1,
                            std::int64_t first_sequence = 0) {
    std::vector<Record> records;
    for (std::int64_t u = first; u <= last; ++u) {
      const std::int64_t sequence = first_sequence == 0 ? u : first_sequence + u - first;
      records.push_back(step_record(sequence, u, rank, attempt));
    }
    return records;
  }
  Series series(const std::string& key, std::size_t points, std::optional<std::int64_t> rank = 0) {
    auto reader = store->reader();
    const auto run = find_run(*reader, run_id);
    SeriesQuery query;
    query.run = run->number;
    query.world_size = run->world_size;
    query.current_attempt = run->attempt;
    query.key = key;
    query.rank = rank;
    query.points = points;
    return read_series(*reader, query);
  }
  babelring::testing::TemporaryFolder folder;
  std::unique_ptr<Store> store;
};

TEST_F(StoreTest, TakesNoMoreThanItsMemoryMayHoldWhileTheDiskIsSlow) {
  std::promise<void> begun, slow;
  std::thread disk([&] {
    store->write([&](Database&) {
      begun.set_value();
      slow.get_future().wait();
    });
  });
  begun.get_future().wait();
  const std::string text(1 << 20, 'x');
  const std::array<std::string, 3> runs = {run_id, "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3F", "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3G"};
  std::atomic<int> stored = 0;
  int accepted = 0;
  bool refused = false;
  for (std::int64_t i = 1; i <= 80 && !refused; ++i) {
    const bool taken = store->submit({runs.at(i % 3), 1, 0, "h", {record_of(LogRecord{.text = text}, i)}},
                                     [&](const Batch&, const IngestResult&) { ++stored; });
    taken ? ++accepted : refused = true;
    if (i == 20 || i == 40) {
      EXPECT_EQ(store->health().queue, i == 20);
    }
  }
  EXPECT_TRUE(refused);
  EXPECT_EQ(accepted, 63) << "64 MiB of them, with what is around the text";
  slow.set_value();
  disk.join();
  ASSERT_TRUE(soon([&] { return stored == accepted && store->health().queue; }));
  EXPECT_EQ(put(*store, {record_of(LogRecord{.text = text}, 100)}).status, IngestResult::Status::stored);
}

TEST_F(StoreTest, ALargeDatabaseIsCheckedWhileItWorksAndDamageStopsWriting) {
  const auto note = [&](const char* word) { std::ofstream(folder.path() / "server.lock") << word; };
  const auto noted = [&] {
    std::string word;
    std::ifstream(folder.path() / "server.lock") >> word;
    return word;
  };
  store->write([](Database& database) {
    database.execute(
        "INSERT INTO audit(time_ms, actor, token, method, route, object, status, request, address) "
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70) "
        "SELECT i, '', '', '', '', '', 200, '', hex(zeroblob(524288)) FROM n");
  });
  store.reset();
  ASSERT_GT(std::filesystem::file_size(folder.path() / "babelring.db"), Store::max_checked_at_once);
  EXPECT_EQ(noted(), "clean");
  note("running");
  open();
  EXPECT_EQ(put(*store, {step_record(1, 1)}).status, IngestResult::Status::stored);
  EXPECT_TRUE(store->health().database);
  store.reset();  // perhaps before the check is done
  note("running");
  {
    std::fstream file(folder.path() / "babelring.db", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096 * 8192);  // within a long row
    file << std::string(8192, '\0');
  }
  open();
  EXPECT_TRUE(soon([&] { return !store->health().database; }));
  EXPECT_FALSE(store->submit({run_id, 1, 0, "h", {step_record(2, 2)}}, [](const Batch&, const IngestResult&) {}));
  EXPECT_THROW(store->write([](Database&) {}), Busy);
  EXPECT_EQ(series("loss", 10).total, 1) << "reading goes on";
  store.reset();
  EXPECT_EQ(noted(), "running") << "the next start checks again";
}

/// The reason why the folder cannot be opened, or "".
std::string refusal(const std::filesystem::path& folder, bool new_database = false) {
  try {
    const Store opened(folder, new_database);
    return "";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

TEST_F(StoreTest, AFolderThatWasUsedNeedsItsDatabase) {
  put(*store, steps(1, 3));
  store.reset();
  const auto database = folder.path() / "babelring.db", kept = folder.path() / "kept.db";
  std::filesystem::rename(database, kept);
  const std::string missing = refusal(folder.path());
  EXPECT_TRUE(
      missing.starts_with("data folder " + folder.path().string() + ": babelring.db is missing, but server.lock"))
      << missing;
  EXPECT_NE(missing.find("--restore"), std::string::npos);
  std::ofstream(database).flush();
  EXPECT_NE(refusal(folder.path()).find("babelring.db is empty"), std::string::npos);
  std::filesystem::rename(kept, database);
  EXPECT_NE(refusal(folder.path(), true).find("exists"), std::string::npos) << "nothing is thrown away";
  open();
  EXPECT_EQ(series("loss", 10).total, 3);
  store.reset();

  std::filesystem::resize_file(database, 0);
  EXPECT_EQ(refusal(folder.path(), true), "");
  EXPECT_EQ(refusal(folder.path()), "") << "the new database counts from then on";
}

TEST_F(StoreTest, ATokensFileIsASignOfUseToo) {
  store.reset();
  for (const char* name : {"babelring.db", "server.lock"}) std::filesystem::remove(folder.path() / name);
  EXPECT_EQ(refusal(folder.path()), "") << "a folder like a new one";
  for (const char* name : {"babelring.db", "server.lock"}) std::filesystem::remove(folder.path() / name);
  std::ofstream(folder.path() / "admin.token") << "bbr_x\n";
  EXPECT_NE(refusal(folder.path()).find("admin.token shows"), std::string::npos);
}

TEST_F(StoreTest, AServerKilledBeforeItsFirstDatabaseHasUsedNothing) {
  store.reset();
  std::filesystem::remove(folder.path() / "babelring.db");
  std::ofstream(folder.path() / "server.lock").flush();  // as it is between its making and the database's
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(SequenceSet, FindsRepeatsAndGapsInAnyOrder) {
  SequenceSet set;
  for (const std::int64_t n : {5, 1, 3, 2, 9}) EXPECT_TRUE(set.insert(n));
  for (const std::int64_t n : {1, 2, 3, 5, 9}) EXPECT_FALSE(set.insert(n));
  EXPECT_EQ(set.ranges(), (SequenceSet::Ranges{{1, 3}, {5, 5}, {9, 9}}));
  EXPECT_EQ(set.missing(), 4);
  for (const std::int64_t n : {4, 8, 6, 7}) EXPECT_TRUE(set.insert(n));
  EXPECT_EQ(set.ranges(), (SequenceSet::Ranges{{1, 9}}));
  EXPECT_EQ(set.missing(), 0);
}

TEST_F(StoreTest, DropsWhatItHasAlsoAfterReopening) {
  EXPECT_EQ(put(*store, steps(1, 10)).fresh.size(), 10u);
  const auto again = put(*store, steps(5, 12));
  EXPECT_EQ(again.fresh.size(), 2u);
  EXPECT_EQ(again.duplicates, 6);
  open();
  EXPECT_EQ(put(*store, steps(1, 12)).duplicates, 12);
  EXPECT_EQ(series("loss", 100).points.size(), 12u);
}

TEST_F(StoreTest, CountsWhatIsMissing) {
  put(*store, steps(1, 3));
  put(*store, steps(6, 8));
  {
    auto reader = store->reader();
    const auto ranks = list_ranks(*reader, find_run(*reader, run_id)->number, 1);
    ASSERT_EQ(ranks.size(), 1u);
    EXPECT_EQ(ranks[0].records, 6);
    EXPECT_EQ(ranks[0].missing, 2);
  }
  put(*store, steps(4, 5));
  auto reader = store->reader();
  EXPECT_EQ(list_ranks(*reader, find_run(*reader, run_id)->number, 1)[0].missing, 0);
}

TEST_F(StoreTest, KeepsWhatAnOlderAttemptSendsLateButNotItsWordOnTheRun) {
  put(*store, steps(4, 6, 0, 2));
  EXPECT_EQ(put(*store, steps(1, 3, 0, 1)).fresh.size(), 3u);
  const Record failed = record_of(LifecycleRecord{.event = "failed", .detail = "a peer was lost"}, 4, 0, 1);
  put(*store, {failed});
  EXPECT_EQ(series("loss", 1000).points.size(), 6u);
  auto reader = store->reader();
  const auto run = find_run(*reader, run_id);
  EXPECT_EQ(run->state, RunState::running);
  EXPECT_EQ(run->attempt, 2);
}

TEST_F(StoreTest, WithoutAFiniteLossNothingIsTheBest) {
  const EvalRecord good{.update = 1, .set = "valid", .loss = 3, .sacrebleu = 20, .best = true};
  const EvalRecord dead{.update = 2, .set = "valid", .loss = NAN, .sacrebleu = 21, .best = true};
  const CheckpointRecord saved{
      .update = 1, .name = "update-00000001", .folder = "/r/update-00000001", .sacrebleu = 20, .loss = 3, .best = true};
  const CheckpointRecord dead_saved{
      .update = 2, .name = "update-00000002", .folder = "/r/update-00000002", .loss = NAN, .best = true};
  put(*store, {record_of(dead, 1)});
  const auto find = [&](Reader& reader) { return find_run(reader, run_id).value(); };
  {
    auto reader = store->reader();
    EXPECT_FALSE(find(*reader).best_eval.has_value());
    EXPECT_EQ(find(*reader).last_eval->step, 2);
  }
  put(*store, {record_of(good, 2), record_of(dead, 3), record_of(saved, 4), record_of(dead_saved, 5)});
  auto reader = store->reader();
  EXPECT_EQ(find(*reader).best_eval->step, 1);
  EXPECT_NE(find(*reader).last_eval->body.find(R"("best":false)"), std::string::npos);
  const auto checkpoints = list_checkpoints(*reader, find(*reader).number, {});
  ASSERT_EQ(checkpoints.size(), 2u);
  EXPECT_FALSE(checkpoints[0].best) << "the newest first";
  EXPECT_TRUE(checkpoints[1].best);
}

TEST_F(StoreTest, ARankThatGoesBackDoesLaterUpdatesAgain) {
  put(*store, steps(1, 1300));
  put(*store, {record_of(LifecycleRecord{.event = "rewound", .detail = "diverged", .update = 100}, 1301)});
  EXPECT_EQ(series("loss", 5000).points.size(), 100u);
  {
    auto reader = store->reader();
    EXPECT_EQ(list_ranks(*reader, find_run(*reader, run_id)->number, 1)[0].last_update, 100);
    EXPECT_EQ(find_run(*reader, run_id)->last.step, 100);
    EXPECT_EQ(find_run(*reader, run_id)->state, RunState::running);
  }
  auto again = steps(101, 1300, 0, 1, 1302);
  for (Record& record : again) std::get<StepRecord>(record.body).loss = 0.5;
  put(*store, again);
  const auto exact = series("loss", 5000).points;
  ASSERT_EQ(exact.size(), 1300u);
  EXPECT_EQ(exact[1000].average, 0.5);
  for (const SeriesPoint& point : series("loss", 10).points) {
    if (point.step <= 700) continue;
    EXPECT_EQ(point.max, 0.5) << "a summary of outdated steps, up to " << point.step;
  }
}

TEST_F(StoreTest, LeavesOutStepsThatALaterAttemptDidAgain) {
  put(*store, steps(1, 100));
  put(*store, steps(71, 80, 0, 2, 1));
  const auto points = series("loss", 1000).points;
  ASSERT_EQ(points.size(), 80u);
  for (std::size_t i = 0; i < points.size(); ++i) EXPECT_EQ(points[i].step, static_cast<std::int64_t>(i) + 1);
}

TEST_F(StoreTest, SummariesEqualTheStepsTheyStandFor) {
  for (std::int64_t first = 1; first <= 4000; first += 1000) put(*store, steps(first, first + 999));
  const auto exact = series("loss", 4000);
  EXPECT_FALSE(exact.sampled);
  ASSERT_EQ(exact.points.size(), 4000u);
  const auto coarse = series("loss", 20);  // read from buckets of 64
  EXPECT_TRUE(coarse.sampled);
  EXPECT_LE(coarse.points.size(), 20u);
  EXPECT_EQ(coarse.total, 4000);
  std::int64_t from = 1;
  for (const SeriesPoint& point : coarse.points) {
    double min = INFINITY, max = -INFINITY, sum = 0;
    for (std::int64_t u = from; u <= point.step; ++u) {
      const double loss = 10.0 / static_cast<double>(u);
      min = std::min(min, loss);
      max = std::max(max, loss);
      sum += loss;
    }
    EXPECT_EQ(point.min, min);
    EXPECT_EQ(point.max, max);
    EXPECT_NEAR(point.average, sum / static_cast<double>(point.step - from + 1), 1e-9);
    from = point.step + 1;
  }
  EXPECT_EQ(from, 4001);
}

TEST_F(StoreTest, AStragglerChangesItsSummary) {
  auto records = steps(1, 3000);
  Record spike = records[999];
  records.erase(records.begin() + 999);
  put(*store, records);
  std::get<StepRecord>(spike.body).loss = 1e6;
  put(*store, {spike});
  const auto coarse = series("loss", 10);
  double max = 0;
  for (const auto& point : coarse.points) max = std::max(max, point.max);
  EXPECT_EQ(max, 1e6);
  auto reader = store->reader();
  const auto keys = summarise_keys(*reader, find_run(*reader, run_id)->number, 0);
  const auto loss = std::find_if(keys.begin(), keys.end(), [](const auto& key) { return key.key == "loss"; });
  ASSERT_NE(loss, keys.end());
  EXPECT_EQ(loss->max, 1e6);
  EXPECT_EQ(loss->max_step, 1000);
  EXPECT_EQ(loss->count, 3000);
  EXPECT_EQ(loss->first, 10.0);
}

TEST_F(StoreTest, SumsOverRanksWaitForAllAndHostsCountOnce) {
  LifecycleRecord started;
  started.event = "started";
  started.world_size = 3;
  put(*store, {record_of(started, 1)});
  put(*store, steps(1, 5, 0, 1, 2));
  put(*store, steps(1, 4, 1));
  EXPECT_TRUE(series("target_tokens", 100, std::nullopt).points.empty());
  put(*store, steps(1, 3, 2));
  const auto tokens = series("target_tokens", 100, std::nullopt);
  ASSERT_EQ(tokens.points.size(), 3u);
  EXPECT_EQ(tokens.points[0].average, 100 + 101 + 102);
  const auto bytes = series("network_tx_bytes", 100, std::nullopt);
  ASSERT_EQ(bytes.points.size(), 3u);
  EXPECT_EQ(bytes.points[0].average, 1001 + 1002);  // ranks 0 and 1 share a host
  EXPECT_EQ(series("loss", 100, std::nullopt).points.size(), 5u);
}

TEST_F(StoreTest, NamesNonFiniteValues) {
  auto records = steps(1, 5);
  std::get<StepRecord>(records[1].body).loss = NAN;
  std::get<StepRecord>(records[3].body).loss = -INFINITY;
  put(*store, records);
  const auto loss = series("loss", 100);
  ASSERT_EQ(loss.non_finite.size(), 2u);
  EXPECT_EQ(loss.non_finite[0].first, 2);
  EXPECT_TRUE(std::isnan(loss.non_finite[0].second));
  EXPECT_EQ(loss.non_finite[1].second, -INFINITY);
  EXPECT_TRUE(std::isnan(loss.points[1].average));
}

TEST_F(StoreTest, NamesAThousandNonFiniteValuesAtMost) {
  auto records = steps(1, 5000);
  for (Record& record : records) std::get<StepRecord>(record.body).loss = NAN;
  put(*store, records);
  for (const std::size_t points : {20u, 5000u}) {  // of summaries, and of steps
    const auto loss = series("loss", points);
    ASSERT_EQ(loss.non_finite.size(), 1000u) << points;
    EXPECT_EQ(loss.non_finite.back().first, 1000) << "the first ones";
  }
}

TEST_F(StoreTest, OneBadBatchDoesNotTakeOthersAlong) {
  std::promise<void> begun, go;
  std::thread busy([&] {  // so that all of them wait, and are then committed together
    store->write([&](Database&) {
      begun.set_value();
      go.get_future().wait();
    });
  });
  begun.get_future().wait();
  std::vector<Record> scattered;
  for (std::int64_t n = 1; n <= 1100; ++n) scattered.push_back(step_record(n * 2, n, 1));
  std::vector<IngestResult> results;  // filled on the writer's thread, in order
  for (auto& records : {steps(1, 5), scattered, steps(1, 5, 2)}) {
    ASSERT_TRUE(store->submit(babelring::testing::batch_of(records),
                              [&](const Batch&, const IngestResult& result) { results.push_back(result); }));
  }
  go.set_value();
  busy.join();
  ASSERT_TRUE(soon([&] { return store->counts().batches == 2 && store->counts().refused == 1; }));
  store->write([](Database&) {});  // the senders have been told
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].fresh.size(), 5u);
  EXPECT_EQ(results[1].status, IngestResult::Status::rejected);
  EXPECT_EQ(results[2].fresh.size(), 5u);
  EXPECT_EQ(store->counts().batches, 2u);
  EXPECT_EQ(store->counts().refused, 1u) << "tried twice, refused once";
}

TEST_F(StoreTest, APurgedRunLeavesNothing) {
  put(*store, steps(1, 5));
  store->write([](Database& database) {
    for (const std::string& run : {run_id, std::string()}) {
      AlertRow alert;
      alert.rule = alert.kind = "stall";
      alert.run = run;
      raise_alert(database, alert);
    }
    const std::int64_t number = std::stoll(database.scalar("SELECT run FROM runs"));
    purge_run(database, number);
  });
  auto reader = store->reader();
  EXPECT_FALSE(find_run(*reader, run_id));
  EXPECT_EQ(reader->database.scalar("SELECT count(*) FROM steps"), "0");
  EXPECT_TRUE(list_alerts(*reader, run_id, "", 0, 10).empty());
  EXPECT_EQ(list_alerts(*reader, "", "", 0, 10).size(), 1u) << "the server's own";
}

TEST_F(StoreTest, RemovesWhatAKilledServerLeftUnfinished) {
  namespace fs = std::filesystem;
  const fs::path backups = folder.path() / "backups";
  fs::create_directories(backups);
  const std::vector<fs::path> unfinished = {folder.path() / "address.tmp.123", folder.path() / ".tmp-restore.db",
                                            backups / ".tmp-babelring-1.db", backups / ".tmp-babelring-1.db-journal"};
  const std::vector<fs::path> others = {folder.path() / "address", folder.path() / "notes.tmp.txt",
                                        folder.path() / "notes.tmp.", backups / "babelring-1.db"};
  for (const fs::path& file : unfinished) std::ofstream(file) << "half";
  for (const fs::path& file : others) std::ofstream(file) << "whole";
  fs::create_directory(folder.path() / "run.tmp.5");
  EXPECT_THROW(Store second(folder.path()), Failure);
  for (const fs::path& file : unfinished) EXPECT_TRUE(fs::exists(file)) << "the other server's: " << file;
  open();
  for (const fs::path& file : unfinished) EXPECT_FALSE(fs::exists(file)) << file;
  for (const fs::path& file : others) EXPECT_TRUE(fs::exists(file)) << file;
  EXPECT_TRUE(fs::exists(folder.path() / "run.tmp.5"));
}

TEST_F(StoreTest, IsHeldByOneServerAtATime) {
  EXPECT_THROW(Store second(folder.path()), Failure);
}

TEST_F(StoreTest, RefusesADatabaseOfANewerProgram) {
  store.reset();
  {
    Database database(folder.path() / "babelring.db", Database::Mode::writer);
    database.execute("PRAGMA user_version = 99");
  }
  EXPECT_THROW(Store newer(folder.path()), Failure);
}

}  // namespace
}  // namespace babelring::store

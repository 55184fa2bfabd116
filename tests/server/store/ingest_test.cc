#include "server/store/ingest.h"

#include <cmath>

#include "base/clock.h"
#include "server/store/attempts.h"
#include "server/store/checkpoints.h"
#include "server/store/control.h"
#include "server/store/steps.h"
#include "tests/server/store/store_fixture.h"

namespace babelring::store {
namespace {

using IngestTest = StoreTest;

TEST_F(IngestTest, DropsWhatItHasAlsoAfterReopening) {
  EXPECT_EQ(put(*store, steps(1, 10)).fresh.size(), 10u);
  const auto again = put(*store, steps(5, 12));
  EXPECT_EQ(again.fresh.size(), 2u);
  EXPECT_EQ(again.duplicates, 6);
  open();
  EXPECT_EQ(put(*store, steps(1, 12)).duplicates, 12);
  EXPECT_EQ(series("loss", 100).points.size(), 12u);
}

TEST_F(IngestTest, CountsWhatIsMissing) {
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

TEST_F(IngestTest, KeepsWhatAnOlderAttemptSendsLateButNotItsWordOnTheRun) {
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

/// The last records of a run may come hours later, from its spool.
TEST_F(IngestTest, ARunEndsWhenItsWorkerSaysSo) {
  const std::int64_t now = wall_time_ms();
  Record started = record_of(LifecycleRecord{.event = "started"}, 1),
         finished = record_of(LifecycleRecord{.event = "finished"}, 2);
  started.header.time_ms = now - 7'200'000, finished.header.time_ms = now - 3'600'000;
  put(*store, {started, finished});
  auto reader = store->reader();
  EXPECT_EQ(find_run(*reader, run_id)->finished_ms, now - 3'600'000);
  EXPECT_EQ(find_run(*reader, run_id)->started_ms, now - 7'200'000);
}

/// All times of a run that is posted late are those of its records, so that a difference is of one clock.
TEST_F(IngestTest, ALateRunHasTheTimesOfItsRecords) {
  const std::int64_t begin = wall_time_ms() - 86'400'000;
  const auto life = [&](const char* event, std::int64_t sequence, std::int64_t attempt, std::int64_t after_ms) {
    Record record = record_of(LifecycleRecord{.event = event}, sequence, 0, attempt);
    record.header.time_ms = begin + after_ms;
    return record;
  };
  put(*store, {life("started", 1, 1, 0)});
  put(*store, {life("failed", 2, 1, 60'000)});
  put(*store, {life("started", 1, 2, 90'000)});
  put(*store, {life("finished", 2, 2, 180'000)});
  auto reader = store->reader();
  const auto run = find_run(*reader, run_id);
  EXPECT_EQ(run->state, RunState::succeeded);
  EXPECT_EQ(run->started_ms, begin);
  EXPECT_EQ(run->finished_ms, begin + 180'000);
  std::vector<std::int64_t> times;
  for (const AttemptRow& attempt : list_attempts(*reader, run->number)) {
    times.push_back(attempt.started_ms - begin);
    times.push_back(attempt.ended_ms.value_or(0) - begin);
  }
  EXPECT_EQ(times, (std::vector<std::int64_t>{0, 60'000, 90'000, 180'000}));
  times.clear();
  for (const TransitionRow& each : list_transitions(*reader, run->number, 0, 100)) {
    times.push_back(each.time_ms - begin);
  }
  EXPECT_EQ(times, (std::vector<std::int64_t>{60'000, 90'000, 180'000}));
}

/// The worker's clock is behind that of the server, which told the start of the run.
TEST_F(IngestTest, AnEndIsNotBeforeTheStart) {
  const std::int64_t begin = wall_time_ms();
  Record started = record_of(LifecycleRecord{.event = "started"}, 1),
         finished = record_of(LifecycleRecord{.event = "finished"}, 2);
  started.header.time_ms = begin;
  finished.header.time_ms = begin - 5000;
  put(*store, {started});
  put(*store, {finished});
  auto reader = store->reader();
  const auto run = find_run(*reader, run_id);
  EXPECT_EQ(run->finished_ms, run->started_ms);
  EXPECT_EQ(list_attempts(*reader, run->number)[0].ended_ms, begin);
}

/// Clocks of workers need not agree with the server's: a difference is of one clock, whenever the records arrive.
TEST_F(IngestTest, ARunTakesAsLongAsItsRecordsSay) {
  const std::int64_t now = wall_time_ms();
  for (const std::int64_t hours : {-5, 2}) {
    const std::int64_t begin = now + hours * 3'600'000;
    const std::string id = hours < 0 ? run_id : "r_01J0000000000000000000000Z";
    const auto life = [&](const char* event, std::int64_t sequence, std::int64_t time_ms, std::int64_t rank = 0) {
      Record record = record_of(LifecycleRecord{.event = event}, sequence, rank);
      record.header.run = id;
      record.header.time_ms = time_ms;
      if (rank > 0) record.header.host = "elsewhere";
      return record;
    };
    put(*store, {life("started", 1, begin), life("progress", 2, begin + 360'000)});
    {
      auto reader = store->reader();
      EXPECT_EQ(find_run(*reader, id)->started_ms, begin);
      EXPECT_NEAR(static_cast<double>(find_run(*reader, id)->reported_ms), static_cast<double>(begin + 360'000), 1);
    }
    put(*store, {life("failed", 1, now, 1)});  // by a third clock
    auto reader = store->reader();
    const auto run = find_run(*reader, id);
    EXPECT_EQ(run->state, RunState::failed);
    EXPECT_NEAR(static_cast<double>(*run->finished_ms - run->started_ms), 360'000, 10'000);
    const auto attempt = list_attempts(*reader, run->number).at(0);
    EXPECT_EQ(attempt.started_ms, begin);
    EXPECT_EQ(attempt.ended_ms, run->finished_ms);
    for (const TransitionRow& each : list_transitions(*reader, run->number, 0, 100)) {
      EXPECT_LE(each.time_ms, wall_time_ms()) << "the journal is the server's";
    }
  }
}

/// The supervisor notices an end without a record, such as a kill, by the server's clock.
TEST_F(IngestTest, AnEndThatNobodyReportedIsOnTheClockOfTheRecords) {
  const std::int64_t now = wall_time_ms(), begin = now - 18'000'000;
  std::int64_t number = 0;
  store->write([&](Database& database) {
    create_run(database, {.id = run_id, .profile = "local"}, now);
    begin_attempt(database, {.id = run_id, .world_size = 1}, "mpirun", "", "", now);
  });
  Record started = record_of(LifecycleRecord{.event = "started"}, 1);
  started.header.time_ms = begin;
  put(*store, {started});
  store->write([&](Database& database) {
    end_attempt(database, {run_id, 1, 137, RunEvent::gave_up, "killed", "supervisor"}, wall_time_ms() + 60'000);
  });
  auto reader = store->reader();
  const auto run = find_run(*reader, run_id);
  number = run->number;
  EXPECT_EQ(run->started_ms, begin);
  EXPECT_NEAR(static_cast<double>(*run->finished_ms - begin), 60'000, 10'000);
  const auto attempt = list_attempts(*reader, number).at(0);
  EXPECT_EQ(std::pair(attempt.started_ms, attempt.ended_ms), std::pair(begin, run->finished_ms));
  EXPECT_GE(list_transitions(*reader, number, 0, 100).back().time_ms, now);
}

TEST_F(IngestTest, GivesARunTheLabelsThatItLacks) {
  const auto labels = [&] {
    auto reader = store->reader();
    return find_run(*reader, run_id)->labels;
  };
  LifecycleRecord started{.event = "started", .labels = json::object{{"sweep", "toy"}, {"cell", "a1"}}};
  put(*store, {record_of(started, 1)});
  EXPECT_EQ(parse_json(labels()).value(), started.labels);
  started.labels = json::object{{"sweep", "other"}, {"team", "mt"}};
  put(*store, {record_of(started, 2)});
  EXPECT_EQ(parse_json(labels()).value(), (json::object{{"sweep", "toy"}, {"cell", "a1"}, {"team", "mt"}}));
  for (const json::value& wrong : {json::value{{"a=b", "c"}}, json::value{{"a", 1}}, json::value("text")}) {
    started.labels = wrong;
    put(*store, {record_of(started, 3)});
  }
  EXPECT_EQ(parse_json(labels()).value().as_object().size(), 3);
}

TEST_F(IngestTest, WithoutAFiniteLossNothingIsTheBest) {
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

/// The worker compares only scores that mean the same, and marks the best of them anew if their meaning changes.
TEST_F(IngestTest, TheBestEvaluationIsTheOneThatTheWorkerMarkedLast) {
  const std::string words = "tok:13a", characters = "tok:zh";
  EvalRecord eval{.update = 1, .set = "valid", .loss = 3, .sacrebleu = 40, .signature = words, .best = true};
  put(*store, {record_of(eval, 1)});
  eval = {.update = 2, .set = "valid", .loss = 3, .sacrebleu = 20, .signature = characters, .best = true};
  put(*store, {record_of(eval, 2)});
  eval = {.update = 3, .set = "valid", .loss = 3, .sacrebleu = 19, .signature = characters};
  put(*store, {record_of(eval, 3)});
  auto reader = store->reader();
  EXPECT_EQ(find_run(*reader, run_id)->best_eval->step, 2);
}

TEST_F(IngestTest, WithoutMarksTheBestEvaluationIsMeasuredLikeTheNewest) {
  std::int64_t sequence = 0;
  for (const auto& [bleu, scoring] : {std::pair(40, "greedy"), {20, "beam"}, {21, ""}, {19, "beam"}}) {
    const EvalRecord eval{
        .update = ++sequence, .set = "valid", .sacrebleu = static_cast<double>(bleu), .scoring = scoring};
    put(*store, {record_of(eval, sequence)});
  }
  auto reader = store->reader();
  EXPECT_EQ(find_run(*reader, run_id)->best_eval->step, 3);
}

TEST_F(IngestTest, WithoutMarksTheBestEvaluationHasTheSignatureOfTheNewest) {
  std::int64_t sequence = 0;
  for (const auto& [bleu, signature] : {std::pair(40, "tok:13a"), {20, "tok:zh"}, {21, "tok:zh"}, {19, "tok:zh"}}) {
    const EvalRecord eval{
        .update = ++sequence, .set = "valid", .sacrebleu = static_cast<double>(bleu), .signature = signature};
    put(*store, {record_of(eval, sequence)});
  }
  auto reader = store->reader();
  EXPECT_EQ(find_run(*reader, run_id)->best_eval->step, 3);
}

TEST_F(IngestTest, ARankThatGoesBackDoesLaterUpdatesAgain) {
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

}  // namespace
}  // namespace babelring::store

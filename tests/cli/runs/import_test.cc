#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/failure.h"
#include "base/records/event_file.h"
#include "cli/runs/foreign_runs.h"
#include "cli/runs/run_commands.h"
#include "tests/worker/test_server.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ImportTest : public testing::Test {
 protected:
  ImportTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ImportTest() override { fs::remove_all(folder_); }

  fs::path write(const fs::path& name, std::string_view content) const {
    const fs::path file = folder_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << content;
    return file;
  }
  /// "metric@step=value" of each value of the only run.
  static std::vector<std::string> values_in(const fs::path& path) {
    std::vector<std::string> texts;
    const std::vector<ForeignRun> runs = read_foreign_runs(path);
    EXPECT_EQ(runs.size(), 1u);
    for (const LoggedValue& value : runs.front().values) {
      texts.push_back(fmt::format("{}@{}={:g}", value.metric, value.step, value.value));
    }
    return texts;
  }
  /// The records that `nmt run import` sends of the only run.
  std::vector<Record> records_of(const fs::path& path, const std::vector<std::string>& options = {}) {
    TestServer server(ledger_);
    CLI::App app;
    add_run_import(app);
    std::vector<std::string> words = {server.address(), "--server", path.string(), "import"};
    for (const std::string& option : options) words.insert(words.begin(), option);
    testing::internal::CaptureStdout();
    try {
      app.parse(words);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    printed_ = testing::internal::GetCapturedStdout();
    if (server.requests() == 0) return {};
    const auto records = batch_from_json("r_01J0000000000000000000000Z", parse_json(server.newest_body()).value());
    EXPECT_TRUE(records) << records.error();
    return *records;
  }
  template <class Body>
  static std::vector<Body> bodies_in(const std::vector<Record>& records) {
    std::vector<Body> bodies;
    for (const Record& record : records) {
      if (const auto* body = std::get_if<Body>(&record.body)) bodies.push_back(*body);
    }
    return bodies;
  }

  const fs::path folder_ = testing::TempDir() + "import_test." + std::to_string(::getpid());
  Ledger ledger_;
  std::string printed_;
};

constexpr std::string_view marian_log =
    "[2023-03-04 05:06:07] [training] Using single-device training\n"
    "[2023-03-04 05:06:17] Ep. 1 : Up. 100 : Sen. 6,400 : Cost 9.31 * 123,456 @ 1,234 after 123,456 : Time 10.34s : "
    "11987.54 words/s : gNorm 1.45 : L.r. 1.8750e-06\n"
    "[2023-03-04 05:06:27] Ep. 1 : Up. 1,200 : Sen. 12,800 : Cost 8.11 * 123,456 @ 1,234 after 246,912 : Time 10.00s : "
    "12000.00 words/s : gNorm 1.25 : L.r. 3.7500e-06\r\n"
    "[2023-03-04 05:06:30] [valid] Ep. 1 : Up. 1200 : bleu : 1.25 : new best\n"
    "[2023-03-04 05:06:30] [valid] Ep. 1 : Up. 1200 : perplexity : 20.0855 : stalled 1 times (last best: 19)\n";

TEST_F(ImportTest, ReadsLogsOfMarian) {
  EXPECT_THAT(
      values_in(write("marian.log", marian_log)),
      ElementsAre("loss@100=9.31", "words/s@100=11987.5", "gradient_norm@100=1.45", "learning_rate@100=1.875e-06",
                  "loss@1200=8.11", "words/s@1200=12000", "gradient_norm@1200=1.25", "learning_rate@1200=3.75e-06",
                  "valid/bleu@1200=1.25", "valid/perplexity@1200=20.0855"));
}

TEST_F(ImportTest, ReadsLogsOfFairseqWithoutTheMeansOfEpochs) {
  const fs::path file = write(
      "train.log",
      "2021-05-05 12:00:00 | INFO | fairseq_cli.train | training on 2 devices\n"
      "2021-05-05 12:00:10 | INFO | train_inner | {\"loss\": \"12.9\", \"num_updates\": \"100\", \"lr\": \"1e-05\"}\n"
      "2021-05-05 12:00:30 | INFO | valid | {\"valid_loss\": \"9.5\", \"valid_num_updates\": \"200\"}\n"
      "2021-05-05 12:00:31 | INFO | train | {\"train_loss\": \"11.5\", \"train_num_updates\": \"200\"}\n"
      "2021-05-05 12:00:31 | INFO | train | {\"train_loss\": \"11.5\", \"trai\n");
  EXPECT_THAT(values_in(file),
              ElementsAre("train_inner/loss@100=12.9", "train_inner/lr@100=1e-05", "valid/loss@200=9.5"));
}

TEST_F(ImportTest, ReadsTheTrainersStateInWhichPythonWritesNaN) {
  const fs::path file = write("mt5/trainer_state.json",
                              "{\"best_metric\": NaN, \"log_history\": [\n"
                              "{\"loss\": 3.25, \"grad_norm\": NaN, \"step\": 500, \"note\": \"a \\\" NaN\"},\n"
                              "{\"eval_bleu\": 21.5, \"eval_loss\": -Infinity, \"step\": 500}]}");
  EXPECT_THAT(values_in(file),
              ElementsAre("loss@500=3.25", "grad_norm@500=nan", "eval_bleu@500=21.5", "eval_loss@500=-inf"));
  EXPECT_EQ(read_foreign_runs(file).front().name, "mt5");
  EXPECT_EQ(read_foreign_runs(folder_ / "mt5").front().form, "Hugging Face's Trainer");
}

TEST_F(ImportTest, ReadsJsonLinesAndNamesTheLineThatHasNoStep) {
  EXPECT_THAT(
      values_in(write("a.jsonl", "{\"_step\": 3, \"_timestamp\": 1.6e9, \"train/loss\": 2.5, \"on\": true}\n\n")),
      ElementsAre("train/loss@3=2.5"));
  const fs::path file = write("b.jsonl", "{\"step\": 1, \"loss\": 2}\n{\"loss\": 2}\n");
  EXPECT_THAT([&] { read_foreign_runs(file); },
              ThrowsMessage<UsageFailure>(
                  HasSubstr("b.jsonl, line 2: found {\"loss\": 2}, expected a JSON object with a step")));
}

TEST_F(ImportTest, ReadsTheRunsOfAChartThatWandbExports) {
  const fs::path file =
      write("chart.csv",
            "\xef\xbb\xbf\"Step\",\"lion-3 - train/loss\",\"lion-3 - train/loss__MIN\",\"lion-3 - _step\","
            "\"a - b - train/loss\"\n0,5.5,5.4,0,6.5\n10,4.5,4.4,10,\n");
  const std::vector<ForeignRun> runs = read_foreign_runs(file);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].name, "a - b");
  EXPECT_EQ(runs[0].values.size(), 1u);
  EXPECT_EQ(runs[1].name, "lion-3");
  ASSERT_EQ(runs[1].values.size(), 2u);
  EXPECT_EQ(runs[1].values[1].metric, "train/loss");
  EXPECT_EQ(runs[1].values[1].step, 10);
  EXPECT_EQ(runs[1].values[1].value, 4.5);
}

TEST_F(ImportTest, ReadsTheMetricOfADownloadFromTensorBoardFromItsName) {
  const fs::path file = write("run-big_7-tag-train_loss.csv", "Wall time,Step,Value\n1600000000.5,100,4.5\n");
  const ForeignRun run = read_foreign_runs(file).front();
  EXPECT_EQ(run.name, "big_7");
  EXPECT_EQ(run.values.front().metric, "train_loss");
  EXPECT_EQ(run.values.front().time_ms, 1600000000500);
}

TEST_F(ImportTest, ReadsARunsFolderOfMlflow) {
  write("run/meta.yaml", "run_id: x\n");
  write("run/metrics/valid/bleu", "1620000010000 0.31 10\n");
  write("run/metrics/train_loss", "1620000000000 5.5 0\n1620000010000 4.5 10\n");
  write("run/params/lr", "0.0003");
  write("run/tags/mlflow.runName", "big run");
  EXPECT_THAT(values_in(folder_ / "run"), ElementsAre("train_loss@0=5.5", "train_loss@10=4.5", "valid/bleu@10=0.31"));
  const ForeignRun run = read_foreign_runs(folder_ / "run").front();
  EXPECT_EQ(run.name, "big run");
  EXPECT_EQ(run.settings.at("lr"), "0.0003");
  write("run/metrics/train_loss", "1620000000000 5.5\n");
  EXPECT_THAT([&] { read_foreign_runs(folder_ / "run"); },
              ThrowsMessage<UsageFailure>(
                  HasSubstr("train_loss, line 1: found '1620000000000 5.5', expected TIME VALUE STEP")));
}

TEST_F(ImportTest, ReadsEventFilesBelowAFolder) {
  const auto log = [&](const char* group, std::int64_t step, double value) {
    SummaryBytes summary;
    summary.scalar("loss", value);
    EventFile(folder_ / "tb" / group, "host").write(step, summary);
  };
  log("train", 100, 4.5);
  log("valid", 100, 4.25);
  EXPECT_THAT(values_in(folder_ / "tb"), ElementsAre("train/loss@100=4.5", "valid/loss@100=4.25"));
  EXPECT_THAT(values_in(folder_ / "tb" / "train"), ElementsAre("loss@100=4.5"));
  EXPECT_EQ(read_foreign_runs(fs::directory_iterator(folder_ / "tb/valid")->path()).front().name, "valid");
}

TEST_F(ImportTest, RefusesWhatItDoesNotKnow) {
  const auto refuses = [](const fs::path& path, const char* message) {
    EXPECT_THAT([&] { read_foreign_runs(path); }, ThrowsMessage<UsageFailure>(HasSubstr(message))) << path;
  };
  refuses(write("text", "some words\nmore"), "text: found 'some words', expected a TensorBoard event file");
  refuses(write("empty.csv", ""), "empty.csv: found no line");
  refuses(write("short.csv", "step,loss\n1,2\n3\n"), "short.csv:3: found 1 fields, expected 2");
  refuses(write("word.csv", "step,loss\none,2\n"), "word.csv:2: step: found 'one', expected a step");
  for (const std::string step : {"nan", "inf", "-1", "1.5", "1e300", ""}) {
    refuses(write("step.csv", "step,loss\n" + step + ",2\n"), "step.csv:2: step: found '");
    refuses(write("step.jsonl", "{\"step\": \"" + step + "\", \"loss\": 2}\n"), "step.jsonl, line 1: found");
  }
  const fs::path odd = write("time.csv", "step,timestamp,loss\n1,nan,2\n2,1e300,2\n");
  EXPECT_EQ(read_foreign_runs(odd).front().values[1].time_ms, 0);
  SummaryBytes summary;
  summary.scalar("loss", 1);
  EventFile(folder_ / "negative", "host").write(-1, summary);
  refuses(folder_ / "negative", "found step -1 of loss, expected at least 0");
  refuses(write("none.csv", "step,loss\n1,\n"), "none.csv: found no value of a metric");
  refuses(write("history.json", "{\"log_history\": [{\"loss\": 2}]}"),
          "log_history[0]: expected an object with a step");
  fs::create_directories(folder_ / "nothing");
  refuses(folder_ / "nothing", "nothing: found no file that is known");
  EXPECT_THAT([&] { read_foreign_runs(folder_ / "absent"); }, ThrowsMessage<Failure>(HasSubstr("absent")));
}

TEST_F(ImportTest, NamesSuggestWhatAMetricIs) {
  const auto suggested = [&](const std::string& metric) {
    const ForeignRun run{.values = {{.metric = metric, .step = 1, .value = 1}}};
    const auto target = map_metrics(run, {}).front().target;
    return target ? target->text() : "";
  };
  for (const auto& [metric, target] : std::map<std::string, std::string>{{"train/loss", "loss"},
                                                                         {"Loss/train", "loss"},
                                                                         {"trainLoss", "loss"},
                                                                         {"progress/xent", "loss"},
                                                                         {"train_inner/gnorm", "gradient_norm"},
                                                                         {"gNorm", "gradient_norm"},
                                                                         {"lr", "learning_rate"},
                                                                         {"words/s", "tokens_per_second"},
                                                                         {"valid/nll_loss", "valid.nll"},
                                                                         {"eval_sacrebleu", "valid.sacrebleu"},
                                                                         {"valid1/bleu", "valid1.sacrebleu"},
                                                                         {"test/chrf", "test.chrf"},
                                                                         {"bleu", "valid.sacrebleu"},
                                                                         {"val_acc", "valid.accuracy"},
                                                                         {"accuracy", ""},
                                                                         {"valid/lr", ""},
                                                                         {"system/gpu", ""},
                                                                         {"loss_scale", ""}}) {
    EXPECT_EQ(suggested(metric), target) << metric;
  }
}

TEST_F(ImportTest, AMetricIsMappedByHandOrByItsNumberOfValues) {
  const ForeignRun run{.values = {{"train/loss", 1, 0, 4},
                                  {"train_inner/loss", 1, 0, 4},
                                  {"train_inner/loss", 2, 0, 3},
                                  {"dev_score", 2, 0, 0.25},
                                  {"lr", 2, 0, 1}}};
  std::vector<Mapping> mappings = map_metrics(run, {"dev_score=dev.sacrebleu*50", "lr="});
  ASSERT_EQ(mappings.size(), 4u);
  EXPECT_EQ(mappings[0].target, (Target{"dev", "sacrebleu"}));
  EXPECT_EQ(mappings[1].target, std::nullopt) << "lr";
  EXPECT_EQ(mappings[2].note, "loss is from train_inner/loss");
  EXPECT_EQ(mappings[3].target, (Target{"", "loss"}));
  EXPECT_EQ(mapped_series(run, mappings).at(Target{"dev", "sacrebleu"}).at(2), 12.5);
  const auto refuses = [&](const char* map, const char* message) {
    EXPECT_THAT([&] { map_metrics(run, {map}); }, ThrowsMessage<UsageFailure>(HasSubstr(message))) << map;
  };
  refuses("loss", "--map: found 'loss', expected THEIRS=OURS");
  refuses("dev_scor=loss", "expected a metric of the run; did you mean 'dev_score'?");
  refuses("lr=valid.lr", "--map: lr: found 'valid.lr', expected loss, nll");
  refuses("lr=loss*x", "--map: lr: found 'x', expected a number behind the *");
}

TEST_F(ImportTest, LossesInBitsAndScoresFromZeroToOneAreConverted) {
  ForeignRun run{.values = {{"train/loss", 1, 0, 12},
                            {"train/ppl", 1, 0, 1024},
                            {"train/nll_loss", 1, 0, 10},
                            {"valid/loss", 1, 0, 9},
                            {"valid/bleu", 1, 0, 0.25},
                            {"valid/acc", 1, 0, 61}}};
  std::vector<Mapping> mappings = map_metrics(run, {});
  Series series = mapped_series(run, mappings);
  EXPECT_NEAR(series.at(Target{"", "loss"}).at(1), 12 * std::log(2.0), 1e-12);
  EXPECT_NEAR(series.at(Target{"valid", "loss"}).at(1), 9 * std::log(2.0), 1e-12);
  EXPECT_EQ(series.at(Target{"valid", "sacrebleu"}).at(1), 25);
  EXPECT_NEAR(series.at(Target{"valid", "accuracy"}).at(1), 0.61, 1e-12);
  EXPECT_FALSE(series.contains(Target{"", "perplexity"}));
  mappings = map_metrics(run, {"valid/bleu=valid.sacrebleu*1"});
  EXPECT_EQ(mapped_series(run, mappings).at(Target{"valid", "sacrebleu"}).at(1), 0.25);
  run.values[1].value = std::exp(10);  // perplexities of losses in nats
  mappings = map_metrics(run, {});
  EXPECT_EQ(mapped_series(run, mappings).at(Target{"", "loss"}).at(1), 12);
}

TEST_F(ImportTest, SendsOneUpdateForEachLossAndTheScoresOfAnEvaluationTogether) {
  const std::vector<Record> records = records_of(write("wandb.csv",
                                                       "_step,_timestamp,train/loss,train/lr,train/tokens_per_second,"
                                                       "valid/loss,valid/bleu\n"
                                                       "0,1000,9,,,,\n"
                                                       "50,1010,8,0.5,1000,,\n"
                                                       "51,1015,,,,7.5,\n"
                                                       "52,1016,,,,,12\n"
                                                       "60,1020,7,,,,\n"
                                                       "61,1021,,,,,11\n"
                                                       "62,1022,,,,,10\n"));
  const auto steps = bodies_in<StepRecord>(records);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].update, 1) << "its steps begin at 0";
  EXPECT_EQ(steps[1].update, 51);
  EXPECT_EQ(steps[1].times.step, 200) << "10 s, 50 updates";
  EXPECT_EQ(steps[1].times.other, 200);
  EXPECT_EQ(steps[1].update_target_tokens, 200);
  EXPECT_EQ(steps[1].target_tokens, 200);
  EXPECT_EQ(steps[0].times.step, 200) << "as the second";
  EXPECT_EQ(steps[1].learning_rate, 0.5);
  EXPECT_TRUE(std::isnan(steps[0].learning_rate));
  EXPECT_EQ(steps[2].learning_rate, 0.5) << "the newest that was logged";
  EXPECT_EQ(steps[2].loss, 7);
  const auto evals = bodies_in<EvalRecord>(records);
  ASSERT_EQ(evals.size(), 3u);
  EXPECT_EQ(evals[0].update, 52);
  EXPECT_EQ(evals[0].loss, 7.5);
  EXPECT_EQ(evals[0].sacrebleu, 12);
  EXPECT_TRUE(evals[0].best);
  EXPECT_FALSE(evals[0].loss_unknown);
  EXPECT_EQ(evals[1].update, 61) << "the last update";
  EXPECT_TRUE(evals[1].loss_unknown);
  EXPECT_TRUE(std::isnan(evals[1].loss));
  EXPECT_FALSE(evals[1].best);
  const auto events = bodies_in<LifecycleRecord>(records);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "wandb");
  EXPECT_EQ(events[0].config, "data:\n  valid_set: \"valid\"\n");
  EXPECT_EQ(to_text(events[0].labels), R"({"imported":"CSV"})");
  EXPECT_EQ(events[1].event, "finished");
  EXPECT_EQ(records.front().header.time_ms, 1000000);
  EXPECT_EQ(records.back().header.time_ms, 1022000);
}

TEST_F(ImportTest, TheSameImportIsTheSameRun) {
  const fs::path file = write("marian.log", marian_log);
  records_of(file);
  EXPECT_THAT(printed_, HasSubstr("sent as run r_"));
  const std::size_t sent = ledger_.records();
  records_of(file);
  EXPECT_THAT(printed_, HasSubstr("the server has it already"));
  EXPECT_EQ(ledger_.records(), sent);
  EXPECT_TRUE(records_of(file, {"--dry-run"}).empty());
  EXPECT_THAT(printed_, HasSubstr("marian: a log of Marian, 2 updates, 1 evaluation\n"));
  EXPECT_THAT(printed_, HasSubstr("valid.nll"));
}

TEST_F(ImportTest, OptionsThatRepeatLeaveThePathAlone) {
  TestServer server(ledger_);
  const std::string file = write("marian.log", marian_log).string();
  CLI::App app;
  add_run_import(app);
  testing::internal::CaptureStdout();
  app.parse("import --server " + server.address() + " --label team=mt --map loss=nll " + file);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("nll"));
  EXPECT_THAT(server.newest_body(), HasSubstr(R"("team":"mt")"));
}

TEST_F(ImportTest, NamesTheServerOnceIfItDoesNotAnswer) {
  const HeldPort port;
  const std::vector<Record> records = {
      {{.run = "r_01J0000000000000000000000Z", .sequence = 1}, LogRecord{"info", "a"}}};
  const SyncOptions options{.server = {port.address()}, .first_retry = std::chrono::milliseconds(1)};
  EXPECT_THAT(
      [&] { send_records(records, options); },
      ThrowsMessage<Failure>(testing::MatchesRegex("http://127.0.0.1:[0-9]+: connect: Connection refused; repeat "
                                                   "the command to send what is left")));
}

TEST_F(ImportTest, SaysWhichMetricsThereAreIfNoneIsALoss) {
  EXPECT_THAT([&] { records_of(write("a.csv", "step,gpu,speed\n1,70,3\n")); },
              ThrowsMessage<UsageFailure>(HasSubstr("a: found the metrics gpu, speed, expected a loss or a score")));
}

}  // namespace
}  // namespace babelring

#include "insight/report/report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "insight/report/spooled_history.h"
#include "tests/insight/report/constructed_run.h"

namespace babelring::insight {
namespace {

using constructed::ConstructedRun;
namespace fs = std::filesystem;

Report report_of(const ConstructedRun& run) {
  HistoryCollector collector;
  run.each([&](const Record& record) { collector.add(record); });
  return make_report(std::move(collector).finish());
}

const Answer& answer_of(const Report& report, int number) {
  return report.answers[static_cast<std::size_t>(number) - 1];
}

double number_of(const Answer& answer, const std::string& name) {
  for (const AnswerNumber& number : answer.numbers) {
    if (number.name == name) return number.value;
  }
  ADD_FAILURE() << answer.key << " has no number " << name;
  return NAN;
}

bool says(const Answer& answer, const std::string& words) {
  return answer.text.find(words) != std::string::npos;
}

void expect_parts_add_up(const Answer& how_long) {
  double parts = 0;
  for (const char* part : {"training_s", "validation_s", "checkpoints_s", "waiting_s", "lost_to_restarts_s"}) {
    const double seconds = number_of(how_long, part);
    EXPECT_GE(seconds, -0.001) << part;
    parts += seconds;
  }
  const double wall = number_of(how_long, "wall_s");
  EXPECT_NEAR(parts, wall, 0.01 * wall);
}

TEST(Report, NamesTheLibrariesOfAllRanks) {
  ConstructedRun run = constructed::small_run();
  EXPECT_EQ(to_text(report_json(report_of(run)).at("environment")), R"({"libraries":{}})");
  run.ranks = 2;
  const LibraryVersions older = {.onednn = "2.6.3", .open_mpi = "4.1.4", .sentencepiece = "0.1.97", .glibc = "2.36"};
  LibraryVersions newer = older;
  newer.onednn = "3.7.2";
  run.libraries = {to_json(older), to_json(newer)};
  const Report report = report_of(run);
  EXPECT_EQ(to_text(report_json(report).at("environment")),
            R"({"libraries":{"onednn":"2.6.3 / 3.7.2","open_mpi":"4.1.4","sentencepiece":"0.1.97","glibc":"2.36"}})");
  for (const std::string& text : {report_html(report), report_markdown(report)}) {
    EXPECT_NE(text.find("oneDNN 2.6.3 / 3.7.2, Open MPI 4.1.4, SentencePiece 0.1.97, glibc 2.36."), text.npos);
  }
}

TEST(Report, AnswersThePublishedRun) {
  const Report report = report_of(constructed::published_run());
  ASSERT_EQ(report.answers.size(), 12u);
  EXPECT_TRUE(says(answer_of(report, 1), "24 h 0 min from the first record to the last")) << answer_of(report, 1).text;
  EXPECT_NEAR(number_of(answer_of(report, 1), "step_mean_ms"), 1713, 0.5);
  expect_parts_add_up(answer_of(report, 1));
  EXPECT_NEAR(number_of(answer_of(report, 10), "tokens_per_s"), 36'438, 5);
  EXPECT_FALSE(answer_of(report, 2).known) << "three evaluations have a loss";

  const Answer& used = answer_of(report, 4);
  EXPECT_TRUE(says(used, "No: ")) << used.text;
  EXPECT_TRUE(says(used, "power 127 to 150 of 250 W")) << used.text;
  EXPECT_TRUE(says(used, "utilisation says 73 to 94 %, which disagrees")) << used.text;

  const Answer& network = answer_of(report, 5);
  EXPECT_TRUE(says(network, "Yes: of the 1,713 ms of an update, ranks wait 1,600 ms (93 %)")) << network.text;
  EXPECT_TRUE(says(network, "365.3 MB for an update by the algorithm")) << network.text;
  EXPECT_TRUE(says(network, "network-bound")) << network.text;

  EXPECT_TRUE(says(answer_of(report, 6), "0.0009882 · min(u / 8,000, sqrt(8,000 / u))")) << answer_of(report, 6).text;
  EXPECT_FALSE(answer_of(report, 7).known);
  EXPECT_EQ(number_of(answer_of(report, 8), "files"), 3);
  EXPECT_TRUE(says(answer_of(report, 9), "812.85 MiB")) << answer_of(report, 9).text;
  EXPECT_NEAR(number_of(answer_of(report, 9), "bytes_per_parameter"), 14, 1e-9);

  const Answer& quality = answer_of(report, 12);
  EXPECT_TRUE(says(quality, "Teacher-forced BLEU went from 28.90 after update 8,000 to 36.73 after update 50,000"))
      << quality.text;
  EXPECT_TRUE(says(quality, "not comparable with sacreBLEU")) << quality.text;
}

TEST(Report, ComparesOnlyScoresThatAreMeasuredAlike) {
  ConstructedRun run = constructed::published_run();
  for (EvalRecord& eval : run.evals) {
    eval.set_digest = eval.update < 12'000 ? "aa" : "bb";
    eval.scoring = eval.update < 24'000 ? "greedy" : "beam";
  }
  const Answer quality = answer_of(report_of(run), 12);
  EXPECT_TRUE(says(quality, "Teacher-forced BLEU went from 35.00 after update 24,000 to 36.73")) << quality.text;
  EXPECT_TRUE(says(quality, "2 evaluations of another version of the set left out: their numbers are not comparable."))
      << quality.text;
  EXPECT_TRUE(says(quality, "BLEU of 2 evaluations left out: measured otherwise")) << quality.text;
  EXPECT_TRUE(says(quality, "The validation loss (nll) was 1.5937 after update 50,000")) << quality.text;
  run.evals.back().set_digest = run.evals.back().scoring = "";  // unknown, as of an older worker: counts as alike
  EXPECT_EQ(answer_of(report_of(run), 12).text, quality.text);
}

TEST(Report, PredictsOtherLinksForThePublishedRun) {
  const Report report = report_of(constructed::published_run());
  const Answer& network = answer_of(report, 11);
  const double one = number_of(network, "predicted_ms_at_1_gbit"), ten = number_of(network, "predicted_ms_at_10_gbit");
  EXPECT_NEAR(one, 2922 + 80, 60);
  EXPECT_NEAR(ten, 292 + 113, 70);
  EXPECT_LT(number_of(network, "predicted_ms_at_100_gbit"), number_of(network, "predicted_ms_at_25_gbit"));
}

TEST(Report, SaysThatARunOverfits) {
  const Report report = report_of(constructed::overfit_run());
  const Answer& answer = answer_of(report, 3);
  EXPECT_TRUE(says(answer, "Yes, since update 40")) << answer.text;
  EXPECT_EQ(number_of(answer, "rises_since_update"), 40);
  EXPECT_GT(number_of(answer, "gap_per_doubling_low"), 0);
  expect_parts_add_up(answer_of(report, 1));
  EXPECT_TRUE(says(answer_of(report, 2), "Beyond its best")) << answer_of(report, 2).text;
}

TEST(Report, SuspectsOverfittingWithoutATrainingSample) {
  ConstructedRun run = constructed::overfit_run();
  std::erase_if(run.evals, [](const EvalRecord& eval) { return eval.set == "train"; });
  EXPECT_TRUE(says(answer_of(report_of(run), 3), "Yes, most likely since update 40"));
  run = constructed::stopped_run();
  const Report report = report_of(run);
  EXPECT_FALSE(answer_of(report, 3).known);
  EXPECT_TRUE(says(answer_of(report, 3), "validation.train_sample")) << answer_of(report, 3).text;
}

TEST(Report, SaysThatARunWasStoppedEarly) {
  const Report report = report_of(constructed::stopped_run());
  const Answer& answer = answer_of(report, 2);
  EXPECT_TRUE(says(answer, "No: the validation loss still falls")) << answer.text;
  EXPECT_TRUE(says(answer, "stopped on request after 100 of 1,000 updates")) << answer.text;
  EXPECT_NEAR(number_of(answer, "fit_c"), 0.5, 0.02);
  const double change = 0.6 / std::sqrt(2) - 0.6;
  EXPECT_NEAR(number_of(answer, "nll_per_doubling"), change, 0.01)
      << "by the fit: the trend of the last ones is steeper";
  EXPECT_LE(number_of(answer, "nll_per_doubling_low"), change + 1e-6);
  EXPECT_GE(number_of(answer, "nll_per_doubling_high"), change - 1e-6);
  EXPECT_TRUE(says(answer, "by twice the updates it changes by −0.17")) << answer.text;
  EXPECT_TRUE(says(answer, "; fit of all 10 evaluations)")) << answer.text;
}

TEST(Report, CannotTellFromTwoEvaluations) {
  const Report report = report_of(constructed::two_evaluations_run());
  for (const int number : {2, 3}) {
    EXPECT_FALSE(answer_of(report, number).known);
    EXPECT_TRUE(says(answer_of(report, number), "Cannot be told, because 2 evaluations of the validation set have"))
        << answer_of(report, number).text;
  }
}

TEST(Report, SaysWhatIsMissingInAnEmptyRun) {
  const Report report = make_report({});
  ASSERT_EQ(report.answers.size(), 12u);
  for (const Answer& answer : report.answers) EXPECT_TRUE(says(answer, "Cannot be told, because")) << answer.text;
  for (const ReportFormat format : {ReportFormat::html, ReportFormat::markdown, ReportFormat::json})
    EXPECT_FALSE(render(report, format).empty());
}

TEST(Report, KnowsOnlyTheLearningRatesThatWereReported) {
  HistoryCollector some, none;
  std::size_t count = 0;
  constructed::small_run().each([&](Record record) {
    if (auto* made = std::get_if<StepRecord>(&record.body)) {
      made->learning_rate = NAN;
      none.add(record);
      made->learning_rate = ++count == 3 ? 0.002 : count == 50 ? 0.001 : NAN;
      some.add(record);
    } else {
      none.add(record);
      some.add(record);
    }
  });
  const Report reported = make_report(std::move(some).finish());
  EXPECT_TRUE(
      says(answer_of(reported, 6), "Its highest value was 0.002 at update 3; the last, at update 50, is 0.001."))
      << answer_of(reported, 6).text;
  const Report unreported = make_report(std::move(none).finish());
  EXPECT_EQ(answer_of(unreported, 6).text, "Cannot be told, because no record has the learning rate.");
}

TEST(Report, NamesTheShardsOfACheckpoint) {
  ConstructedRun run = constructed::published_run();
  const std::vector<CheckpointFile> files = {{"weights-00001-of-00002.safetensors", 600, "aa"},
                                             {"weights-00002-of-00002.safetensors", 400, "bb"},
                                             {"optimizer-00001-of-00002.safetensors", 1200, "cc"},
                                             {"optimizer-00002-of-00002.safetensors", 800, "dd"},
                                             {"state.json", 24, "ee"}};
  run.checkpoints.back().files = files;
  const Report report = report_of(run);
  const Answer& answer = answer_of(report, 8);
  EXPECT_TRUE(says(answer, "6 files")) << answer.text;
  EXPECT_EQ(answer.tables[0].rows.back()[0], "SHA256SUMS");
  EXPECT_TRUE(says(answer, "Weights and moments are in 2 shards each, written by as many hosts.")) << answer.text;
  EXPECT_EQ(number_of(answer, "shards"), 2);
  ASSERT_EQ(answer.tables.size(), 1U);
  EXPECT_EQ(answer.tables[0].rows[1][1],
            "the f32 master weights, or with training.ema their average, by parameter name; one of 2 shards");
  EXPECT_EQ(answer.tables[0].rows[2][1],
            "Adam's first and second moments, with training.ema also the master weights; one of 2 shards");
  EXPECT_EQ(number_of(answer_of(report, 9), "weights_bytes"), 1000);
  EXPECT_EQ(number_of(answer_of(report, 9), "optimizer_bytes"), 2000);
}

TEST(Report, DescribesTheTrainingSet) {
  ConstructedRun run = constructed::small_run();
  run.data = {{"bytes", 2048},         {"pairs", 100},       {"source_tokens", 1500},
              {"target_tokens", 1400}, {"vocabulary", 8000}, {"dropped", {{"duplicate", 3}, {"empty", 1}}},
              {"digest", "0123456789"}};
  const Answer answer = answer_of(report_of(run), 7);
  EXPECT_TRUE(says(answer, "100 sentence pairs with 1,500 source and 1,400 target tokens")) << answer.text;
  EXPECT_TRUE(says(answer, "4 pairs were dropped")) << answer.text;
  EXPECT_EQ(answer.tables.at(0).rows.size(), 2u);
}

/// A run of task gssm whose loss falls towards an entropy of 1.9 nats.
ConstructedRun sequence_run() {
  ConstructedRun run = constructed::small_run();
  run.config = "task: gssm\ndata:\n  folder: \"\"\n  valid_set: valid\n  sequence_length: 64\n";
  run.step.source_tokens = 0;
  run.evaluate("valid", 10, [](double update) { return 1.95 + 3 / update; });
  for (EvalRecord& eval : run.evals) eval.entropy = 1.9;
  return run;
}

TEST(Report, KnowsGeneratedSequences) {
  const Report report = report_of(sequence_run());
  EXPECT_TRUE(says(answer_of(report, 2), "the last loss lies 0.0800 nats above it (4.2 % of it)"))
      << answer_of(report, 2).text;
  EXPECT_NEAR(number_of(answer_of(report, 2), "entropy"), 1.9, 1e-9);
  EXPECT_NEAR(number_of(answer_of(report, 2), "excess"), 0.08, 1e-9);
  EXPECT_TRUE(says(answer_of(report, 3), "No: no sequence is trained on twice")) << answer_of(report, 3).text;
  EXPECT_TRUE(says(answer_of(report, 7), "new sequences of 64 tokens for every update")) << answer_of(report, 7).text;
  EXPECT_TRUE(says(answer_of(report, 10), "Within updates, 2,800 target tokens")) << answer_of(report, 10).text;
  const Answer& quality = answer_of(report, 12);
  EXPECT_EQ(quality.question, "How did loss and excess develop?");
  EXPECT_TRUE(says(quality, "The excess of the loss over the exact entropy went from 0.3500 after update 10 to 0.0800"))
      << quality.text;
  EXPECT_NEAR(number_of(quality, "last_excess"), 0.08, 1e-9);
  EXPECT_EQ(quality.tables.at(0).columns, (std::vector<std::string>{"update", "nll", "entropy", "excess", "loss"}));
  for (const ReportFormat format : {ReportFormat::html, ReportFormat::markdown, ReportFormat::json}) {
    const std::string text = render(report, format);
    for (const char* word : {"BLEU", "source token", "subword", "sentence", "source_tokens"}) {
      EXPECT_EQ(text.find(word), std::string::npos) << word;
    }
  }
}

/// Neither a law nor a straight trend may promise a loss below 0 or below the entropy.
TEST(Report, ForecastsNoLossThatNoModelCanReach) {
  for (const double least : {0.0, 1.9}) {
    for (const std::int64_t every : {10, 25}) {
      ConstructedRun run = sequence_run();
      run.evals.clear();
      run.evaluate("valid", every, [&](double u) { return least + 0.05 + 0.6 * std::log2(100 / u); });
      for (EvalRecord& eval : run.evals) eval.entropy = least > 0 ? least : NAN;
      const Answer answer = answer_of(report_of(run), 2);
      EXPECT_TRUE(says(answer, "No: the validation loss still falls")) << answer.text;
      EXPECT_GE(number_of(answer, "nll_per_doubling"), -0.05 - 1e-9) << answer.text;
      EXPECT_LE(number_of(answer, "nll_per_doubling_low"), number_of(answer, "nll_per_doubling"));
      EXPECT_GE(number_of(answer, "nll_per_doubling_low"), -0.05 - 1e-9) << answer.text;
      const bool fitted = says(answer, "The fit of all");
      EXPECT_GE(fitted ? number_of(answer, "fit_a") : least, least) << answer.text;
    }
  }
}

TEST(Report, DescribesAFolderOfSequences) {
  ConstructedRun run = sequence_run();
  run.config = "task: gssm\ndata:\n  folder: sequences\n  valid_set: valid\n";
  run.data = {{"bytes", 4000},         {"pairs", 30},     {"source_tokens", 0},
              {"target_tokens", 1920}, {"vocabulary", 8}, {"digest", "0123456789"}};
  for (EvalRecord& eval : run.evals) eval.entropy = NAN;
  const Report report = report_of(run);
  EXPECT_TRUE(says(answer_of(report, 7), "30 generated sequences of 64 tokens")) << answer_of(report, 7).text;
  EXPECT_TRUE(says(answer_of(report, 7), "1,890 target tokens")) << answer_of(report, 7).text;
  EXPECT_EQ(number_of(answer_of(report, 7), "target_tokens"), 1890);
  EXPECT_TRUE(says(answer_of(report, 12), "so the excess over it is unknown")) << answer_of(report, 12).text;
  EXPECT_EQ(answer_of(report, 12).tables.at(0).columns, (std::vector<std::string>{"update", "nll", "loss"}));
}

TEST(Report, SaysWhetherTheLastDifferenceIsOne) {
  ConstructedRun run = constructed::small_run();
  run.evals.clear();
  run.evaluate("valid", 20, [](double update) { return 2 - update / 1000; });
  for (EvalRecord& eval : run.evals) eval.sacrebleu = 30;
  EXPECT_FALSE(says(answer_of(report_of(run), 12), "bootstrap")) << "records of an older worker";
  EvalRecord& last = run.evals[run.evals.size() - 2];  // the newest did not translate
  last.best_before = 40;
  last.above_best = {.difference = -0.1, .p_value = 0.62};
  run.evals.back().sacrebleu = std::nan("");
  const Answer answer = answer_of(report_of(run), 12);
  EXPECT_TRUE(says(answer,
                   "The last that is compared, after update 80, is 0.10 BLEU worse than update 40 (p = 0.62), the best "
                   "before it, by paired bootstrap."))
      << answer.text;
  EXPECT_EQ(number_of(answer, "p_value"), 0.62);
  last.above_best = {.difference = 0};
  EXPECT_TRUE(says(answer_of(report_of(run), 12), "is as good as update 40 in BLEU, the best before it."))
      << answer_of(report_of(run), 12).text;
}

TEST(Report, TellsTheScoresOnOtherSets) {
  ConstructedRun run = constructed::small_run();
  run.evals.clear();
  run.evaluate("valid", 20, [](double update) { return 2 - update / 1000; });
  run.evaluate("train", 20, [](double) { return 1.5; });
  run.evaluate("general", 20, [](double update) { return 3 + update / 100; });
  std::ranges::stable_sort(run.evals, {}, &EvalRecord::update);
  for (EvalRecord& eval : run.evals) {
    if (eval.set == "general") eval.sacrebleu = 30 - static_cast<double>(eval.update) / 10;
  }
  const Answer answer = answer_of(report_of(run), 12);
  EXPECT_TRUE(says(answer, "The loss (nll) on general went from 3.2000 after update 20 to 4.0000 after update 100."))
      << answer.text;
  EXPECT_TRUE(says(answer, "sacreBLEU on general went from 28.00 after update 20 to 20.00 after update 100."))
      << answer.text;
  ASSERT_EQ(answer.tables.size(), 2U);
  EXPECT_EQ(answer.tables[0].title, "Evaluations of valid");
  EXPECT_EQ(answer.tables[1].title, "Evaluations of general");
  EXPECT_NEAR(number_of(answer, "last_nll"), 1.9, 1e-9) << "of the validation set";
  std::vector<std::string> plots;
  for (const Plot& plot : answer.plots) plots.push_back(plot.title);
  EXPECT_EQ(plots, (std::vector<std::string>{"Validation loss", "Loss on general", "sacreBLEU on general"}));
}

TEST(Report, SaysWhichLimitEndedTheRun) {
  ConstructedRun run = constructed::stopped_run();
  run.max_updates = 0;
  run.end_event = "finished", run.end_detail = "finished: 12 minutes of training";
  EXPECT_TRUE(
      says(answer_of(report_of(run), 2), "It ended as configured, after 100 updates, by its limit of 12 minutes of"));
  run.end_detail = "early stopping: 5 evaluations without a better one";
  EXPECT_TRUE(says(answer_of(report_of(run), 2), "It ended early, after 100 updates (early stopping: 5"));
}

TEST(Report, WeighsBusyTimeByTheLengthOfUpdates) {
  HistoryCollector collector;
  constructed::small_run().each([&](Record record) {
    if (auto* step = std::get_if<StepRecord>(&record.body)) {
      const bool slow = step->update % 4 == 0;
      step->busy_fraction = slow ? 0.1 : 0.5;
      step->times.step = slow ? 300 : 100;
    }
    collector.add(record);
  });
  const Report report = make_report(std::move(collector).finish());
  EXPECT_NEAR(number_of(answer_of(report, 4), "busy_fraction"), (3 * 0.5 * 100 + 0.1 * 300) / 600, 1e-9);
}

TEST(Report, WaitsLongerThanTheSumsAreExplained) {
  ConstructedRun run = constructed::small_run();
  run.ranks = 2;
  run.step.times.exposed_communication = 12.4, run.step.times.communication = 11.6;
  const Report report = report_of(run);
  EXPECT_TRUE(says(answer_of(report, 5), "a sum is in progress for 11.6 ms, the rest of the wait lies around the sums"))
      << answer_of(report, 5).text;
  EXPECT_FALSE(says(answer_of(report, 11), "bytes sent")) << answer_of(report, 11).text;
  for (const auto& row : answer_of(report, 11).tables.at(0).rows) EXPECT_NE(row[1], "bytes sent per second");
}

TEST(Report, EscapesTextOfTheRun) {
  ConstructedRun run = constructed::small_run();
  run.name = "<script>alert(1)</script>";
  const Report report = report_of(run);
  EXPECT_EQ(report_html(report).find("<script"), std::string::npos);
  EXPECT_EQ(report_markdown(report).find("<script"), std::string::npos);
}

TEST(Report, BreaksOnlyDigestsInTables) {
  ConstructedRun run = constructed::small_run();
  const std::string digest(64, 'a');
  run.checkpoints = {{.update = 2, .name = "update-00000002", .files = {{"weights.safetensors", 9'384'000, digest}}}};
  const std::string html = report_html(report_of(run));
  EXPECT_NE(html.find("<td>weights.safetensors</td>"), std::string::npos);
  EXPECT_NE(html.find("<td class=\"long\">" + digest + "</td>"), std::string::npos);
}

TEST(Report, NamesAnEmulatedRun) {
  ConstructedRun run = constructed::small_run();
  EXPECT_FALSE(report_of(run).emulated);
  run.config += "training:\n  device: emulated\n";
  const Report report = report_of(run);
  EXPECT_TRUE(report_json(report).at("emulated").as_bool());
  for (const std::string& text : {report_html(report), report_markdown(report)}) {
    EXPECT_NE(text.find("emulated with Babelring 0.1.0. Its ranks waited"), std::string::npos);
  }
}

void expect_golden(const ConstructedRun& run, const std::string& file) {
  const fs::path golden = fs::path(BABELRING_SOURCE_DIR) / "tests/insight/report" / file;
  const std::string made = render(report_of(run), ReportFormat::json);
  if (std::getenv("BABELRING_WRITE_GOLDEN") != nullptr) write_file_atomically(golden, made);
  EXPECT_EQ(made, read_file(golden)) << "BABELRING_WRITE_GOLDEN=1 writes it again";
}

TEST(Report, EqualsItsGoldenJson) {
  expect_golden(constructed::stopped_run(), "stopped_run.json");
  expect_golden(constructed::overfit_run(), "overfit_run.json");
  ConstructedRun hosts = constructed::run_on_two_hosts();
  hosts.peak_flops = 1.5e13;
  hosts.step.flops = 9e12;
  expect_golden(hosts, "run_on_two_hosts.json");
}

TEST(Report, CountsRestartsAsLostTime) {
  HistoryCollector collector;
  ConstructedRun first = constructed::small_run();
  first.updates = 60;
  first.end_event = "failed", first.end_detail = "killed";
  first.each([&](const Record& record) { collector.add(record); });
  // The second attempt begins 30 s after the first and does updates 41 to 60 again.
  ConstructedRun second = constructed::small_run();
  second.begin_ms += 36'000;
  std::int64_t last_ms = second.begin_ms;
  second.each([&](Record record) {
    record.header.attempt = 2;
    if (auto* step = std::get_if<StepRecord>(&record.body)) {
      if (step->update <= 40) return;
      record.header.time_ms -= 4000;
    }
    last_ms = std::max(last_ms, record.header.time_ms);
    collector.add(record);
  });
  const Report report = make_report(std::move(collector).finish());
  const Answer& answer = answer_of(report, 1);
  expect_parts_add_up(answer);
  EXPECT_EQ(number_of(answer, "attempts"), 2);
  EXPECT_EQ(number_of(answer, "updates"), 100);
  EXPECT_NEAR(number_of(answer, "lost_to_restarts_s"), 32, 0.2) << "from the end of update 40 to the start of 41";
  EXPECT_NEAR(number_of(answer, "training_s"), 10, 0.1);
}

}  // namespace
}  // namespace babelring::insight

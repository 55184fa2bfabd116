#include "base/records/records.h"
#include "base/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "base/clock.h"

namespace babelring {
namespace {

using testing::HasSubstr;

constexpr const char* run_id = "r_01J0000000000000000000000Z";

Record record_of(RecordBody body) {
  return {{.run = run_id, .attempt = 2, .sequence = 7, .rank = 3, .host = "hostA", .time_ms = 1795247730123},
          std::move(body)};
}

StepRecord sample_step() {
  StepRecord step{.update = 100, .epoch = 1.25, .loss = 5.31, .nll = 4.9};
  step.sentences = 64;
  step.times.step = 1.0 / 3;
  step.communication_bytes = INT64_MAX;
  step.memory_bytes = {{"weights", 123}, {"peak", 456}};
  step.gpu = {{"utilization_percent", 93}, {"pcie_rx_bytes", 1 << 20}};
  step.skipped = true;
  step.weights_digest = "ab12";
  return step;
}

std::vector<Record> one_of_each() {
  EvalRecord eval{.update = 10, .set = "valid", .loss = 3, .signature = "nrefs:1|case:mixed"};
  eval.sacrebleu = std::nan("");
  eval.best_before = 5;
  eval.above_best = {.difference = -0.1 / 3, .p_value = 0.41};
  eval.resamples = {{.metric = "BLEU", .signature = "s", .references = "ab", .statistics = "cd", .score = 1.0 / 3}};
  eval.resamples[0].scores = {100.0 / 3, 2.0 / 3};
  eval.samples = {{"a \"quoted\"\n", "b", "c é"}, {"", "", ""}};
  CheckpointRecord checkpoint{.update = 10, .name = "update-00000010", .folder = "/x"};
  checkpoint.files = {{"weights.safetensors", 1000, "00ff"}};
  checkpoint.sacrebleu = std::nan("");
  checkpoint.loss = -std::numeric_limits<double>::infinity();
  LifecycleRecord life{.event = "started", .name = "n", .config = "a: 1\n", .world_size = 4};
  life.update = 20;
  ArtifactRecord artifact{.update = 20, .name = "probe-update-00000020-rank-3.jsonl", .artifact = "probe"};
  artifact.size = 12;
  artifact.content = {{"layers", json::array{1, nullptr, "x"}}};
  return {record_of(sample_step()), record_of(eval),    record_of(checkpoint), record_of(LogRecord{"info", "hello"}),
          record_of(life),          record_of(artifact)};
}

TEST(Records, EveryKindReadsBackEqual) {
  const std::vector<std::string> kinds = {"step", "eval", "checkpoint", "log", "lifecycle", "artifact"};
  std::size_t index = 0;
  for (const Record& record : one_of_each()) {
    const std::string text = to_text(to_json(record));
    const auto back = record_from_json(parse_json(text)->get_object());
    ASSERT_TRUE(back.ok()) << back.error();
    EXPECT_EQ(to_text(to_json(*back)), text);
    EXPECT_EQ(back->header.run, run_id);
    EXPECT_EQ(back->header.sequence, 7);
    EXPECT_EQ(kind_of(back->body), kinds[index++]);
  }
}

TEST(Records, ValuesSurvive) {
  const Record back = record_from_json(to_json(record_of(sample_step()))).value();
  const auto& step = std::get<StepRecord>(back.body);
  EXPECT_EQ(step.update, 100);
  EXPECT_EQ(step.times.step, 1.0 / 3);
  EXPECT_EQ(step.communication_bytes, INT64_MAX);
  EXPECT_EQ(step.memory_bytes.at("peak"), 456);
  EXPECT_EQ(step.gpu.at("utilization_percent"), 93);
  EXPECT_TRUE(step.skipped);
  EXPECT_EQ(back.header.host, "hostA");
  EXPECT_EQ(back.header.time_ms, 1795247730123);
}

TEST(Records, NonFiniteNumbersAreNullAndNamed) {
  StepRecord step{.update = 1, .loss = std::nan("")};
  step.gradient_norm = std::numeric_limits<double>::infinity();
  step.nll = -std::numeric_limits<double>::infinity();
  const json::object object = to_json(record_of(step));
  EXPECT_TRUE(object.at("loss").is_null());
  EXPECT_EQ(to_text(object.at("non_finite")), R"({"loss":"nan","nll":"-inf","gradient_norm":"inf"})");
  const Record back = record_from_json(object).value();
  EXPECT_TRUE(std::isnan(std::get<StepRecord>(back.body).loss));
  EXPECT_EQ(std::get<StepRecord>(back.body).gradient_norm, step.gradient_norm);
  EXPECT_EQ(std::get<StepRecord>(back.body).nll, step.nll);
}

TEST(Records, LossesByCorpusAreThereWithNamesOnly) {
  StepRecord step{.update = 1};
  EXPECT_FALSE(to_json(record_of(step)).contains("corpus_loss"));
  EXPECT_FALSE(to_json(record_of(step)).contains("corpus_tokens"));
  step.corpus_loss = {{"clean", 2.5}, {"crawl", 1.0 / 3}};
  step.corpus_tokens = {{"clean", 70}, {"crawl", 30}};
  const json::object object = to_json(record_of(step));
  EXPECT_EQ(to_text(object.at("corpus_tokens")), R"({"clean":70,"crawl":30})");
  const auto back = std::get<StepRecord>(record_from_json(object).value().body);
  EXPECT_EQ(back.corpus_loss, step.corpus_loss);
  EXPECT_EQ(back.corpus_tokens, step.corpus_tokens);
  EXPECT_THAT(metrics_of(step), testing::IsSupersetOf({std::pair<std::string, double>{"corpus_loss.crawl", 1.0 / 3},
                                                       {"corpus_tokens.clean", 70}}));
}

TEST(Records, AnUnknownEntropyIsAbsent) {
  StepRecord step{.update = 1, .nll = 1.75};
  EXPECT_FALSE(to_json(record_of(step)).contains("entropy"));
  EXPECT_FALSE(to_json(record_of(EvalRecord{.update = 1, .set = "test"})).contains("entropy"));
  EXPECT_TRUE(std::isnan(std::get<StepRecord>(record_from_json(to_json(record_of(step)))->body).entropy));
  const auto value_of = [](const StepRecord& record, std::string_view key) {
    for (const auto& [name, value] : metrics_of(record)) {
      if (name == key) return value;
    }
    return -1.0;
  };
  EXPECT_EQ(value_of(step, "entropy"), -1);
  EXPECT_EQ(value_of(step, "excess"), -1);
  step.entropy = 1.5;
  const Record back = record_from_json(to_json(record_of(step))).value();
  EXPECT_EQ(std::get<StepRecord>(back.body).entropy, 1.5);
  EXPECT_EQ(value_of(step, "entropy"), 1.5);
  EXPECT_EQ(value_of(step, "excess"), 0.25);
}

TEST(Records, OnlyAComparedValidationSaysTheDifference) {
  const json::object plain = to_json(record_of(EvalRecord{.update = 1, .set = "valid"}));
  for (const char* member : {"best_before", "bleu_above_best", "p_value", "resamples"}) {
    EXPECT_FALSE(plain.contains(member)) << member;
  }
  EvalRecord eval{.update = 1500, .set = "valid", .best_before = 1000};
  const auto said = [&](double difference, double p) {
    eval.above_best = {.difference = difference, .p_value = p};
    return difference_to_best(eval);
  };
  EXPECT_EQ(said(0.296, 0.407), "0.30 BLEU better than update 1,000 (p = 0.41)");
  EXPECT_EQ(said(-0.3, 0.000999), "0.30 BLEU worse than update 1,000 (p = 0.001)");
  EXPECT_EQ(said(0.3, std::nan("")), "0.30 BLEU better than update 1,000");
  EXPECT_EQ(said(0, p_of_equals), "equal to update 1,000 in BLEU");
  EXPECT_EQ(said(0, std::nan("")), "as good as update 1,000 in BLEU");
  eval.best_before = 0;
  EXPECT_EQ(said(0.3, 0.2), "0.30 BLEU better than the best before (p = 0.20)");
}

TEST(Records, ResamplesOfDifferentTextsOrMetricsDoNotCompare) {
  const Resamples own{
      .metric = "BLEU", .signature = "tok:13a", .references = "ab", .statistics = "1", .scores = {1, 2}};
  const auto error_with = [&](auto change) {
    Resamples other = own;
    other.statistics = "2";
    change(other);
    const Result<ScoreDifference> compared = compare(other, own);
    return compared ? std::string() : compared.error();
  };
  EXPECT_EQ(error_with([](Resamples&) {}), "");
  EXPECT_EQ(error_with([](Resamples& other) { other.references = "cd"; }), "other validation set");
  EXPECT_EQ(error_with([](Resamples& other) { other.signature = "tok:zh"; }), "other signature, tok:zh and tok:13a");
  EXPECT_EQ(error_with([](Resamples& other) { other.metric = "chrF2"; }), "chrF2 and BLEU");
  EXPECT_EQ(error_with([](Resamples& other) { other.scores = {1}; }), "1 and 2 resamples");
}

TEST(Records, AbsentMembersKeepDefaults) {
  const auto text = R"({"run":"r_01J0000000000000000000000Z","attempt":1,"rank":0,"sequence":1,"time_ms":5,)"
                    R"("kind":"step","update":3,"loss":2})";
  const auto record = record_from_json(parse_json(text)->get_object());
  ASSERT_TRUE(record.ok()) << record.error();
  EXPECT_EQ(std::get<StepRecord>(record->body).loss, 2.0);
  EXPECT_EQ(std::get<StepRecord>(record->body).power_w, 0.0);
}

struct Damage {
  const char* member;
  const char* json;  // null: the member is removed
  const char* message;
};

class DamagedRecord : public testing::TestWithParam<Damage> {};

TEST_P(DamagedRecord, NamesMemberFoundAndExpected) {
  json::object object = to_json(record_of(sample_step()));
  object.erase(GetParam().member);
  if (GetParam().json != nullptr) object[GetParam().member] = parse_json(GetParam().json).value();
  const auto record = record_from_json(object);
  ASSERT_FALSE(record.ok());
  EXPECT_EQ(record.error(), std::string("record: ") + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Members, DamagedRecord,
    testing::Values(
        Damage{"kind", nullptr, "kind: expected, but absent"},
        Damage{"kind", "\"stop\"", "kind: expected step, eval, checkpoint, log, lifecycle or artifact, found 'stop'"},
        Damage{"run", nullptr, "run: expected, but absent"},
        Damage{"run", "\"r_1\"", "run: expected r_ and 26 base-32 digits, found 'r_1'"},
        Damage{"sequence", nullptr, "sequence: expected, but absent"},
        Damage{"sequence", "0", "sequence: expected at least 1, found 0"},
        Damage{"sequence", "1.5", "sequence: expected an integer, found 1.5"},
        Damage{"attempt", "0", "attempt: expected at least 1, found 0"},
        Damage{"rank", "-1", "rank: expected at least 0, found -1"},
        Damage{"time_ms", "-1", "time_ms: expected at least 0, found -1"},
        Damage{"update", "\"éééééééééééééééééééééééééééééééééé\"",
               "update: expected an integer, found \"ééééééééééééééééééééééééééééé…"},
        Damage{"host", "5", "host: expected a string, found 5"},
        Damage{"update", nullptr, "update: expected, but absent"},
        Damage{"update", "18446744073709551615", "update: expected an integer, found 18446744073709551615"},
        Damage{"loss", "\"low\"", "loss: expected a number (or null and an entry in non_finite), found \"low\""},
        Damage{"loss", "null", "loss: expected a number (or null and an entry in non_finite), found null"},
        Damage{"skipped", "1", "skipped: expected true or false, found 1"},
        Damage{"memory_bytes", "[]", "memory_bytes: expected an object of integers, found an array"},
        Damage{"corpus_loss", "[]", "corpus_loss: expected an object of numbers, found an array"},
        Damage{"corpus_loss", "{\"a\":\"b\"}",
               "corpus_loss.a: expected a number (or null and an entry in non_finite), found \"b\""},
        Damage{"memory_bytes", "{\"weights\":{}}", "memory_bytes.weights: expected an integer, found an object"},
        Damage{"learning_rat", "1", "learning_rat: unknown member; did you mean 'learning_rate'?"},
        Damage{"non_finite", "[]", "non_finite: expected an object, found an array"},
        Damage{"non_finite", "{\"loss\":\"nan\"}", "non_finite: names a member that is not a null number"}));

TEST(Records, ErrorsNameNestedMembers) {
  json::object eval = to_json(one_of_each()[1]);
  eval["samples"].as_array()[1].as_object().erase("hypothesis");
  EXPECT_EQ(record_from_json(eval).error(), "record: samples[1].hypothesis: expected, but absent");
  eval["samples"].as_array()[1] = 5;
  EXPECT_EQ(record_from_json(eval).error(), "record: samples[1]: expected an object, found 5");
  eval["samples"] = "none";
  EXPECT_EQ(record_from_json(eval).error(), "record: samples: expected an array of objects, found \"none\"");
  eval["samples"] = json::array{};
  eval["non_finite"] = json::object{{"sacrebleu", "big"}};
  EXPECT_EQ(record_from_json(eval).error(),
            "record: non_finite.sacrebleu: expected \"nan\", \"inf\" or \"-inf\", found \"big\"");
}

TEST(Records, BatchReadsBackEqual) {
  std::vector<Record> records = one_of_each();
  for (std::size_t i = 0; i < records.size(); ++i) records[i].header.sequence = static_cast<std::int64_t>(i) + 1;
  const json::object batch = batch_to_json(2, 3, "hostA", records);
  EXPECT_EQ(batch.at("attempt"), 2);
  EXPECT_FALSE(batch.at("records").as_array()[0].as_object().contains("run"));
  const auto back = batch_from_json(run_id, parse_json(to_text(batch)).value());
  ASSERT_TRUE(back.ok()) << back.error();
  ASSERT_EQ(back->size(), records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(to_text(to_json((*back)[i])), to_text(to_json(records[i])));
  }
}

std::string batch_error(const std::string& text) {
  const auto batch = batch_from_json(run_id, parse_json(text).value());
  return batch.ok() ? "accepted" : batch.error();
}

TEST(Records, BadBatchesNameTheRecord) {
  const std::string head = R"({"attempt":1,"rank":0,"host":"h","records":)";
  EXPECT_EQ(batch_error(head + "[]}"), "accepted");
  EXPECT_EQ(batch_error("[]"), "batch: expected an object, found an array");
  EXPECT_EQ(batch_error(R"({"attempt":1,"rank":0})"), "batch: records: expected an array of objects, but absent");
  EXPECT_EQ(batch_error(head + "5}"), "batch: records: expected an array of objects, found 5");
  EXPECT_EQ(batch_error(head + "[5]}"), "batch: records[0]: expected an object, found 5");
  EXPECT_EQ(batch_error(R"({"rank":0,"records":[]})"), "batch: attempt: expected, but absent");
  EXPECT_EQ(batch_error(R"({"attempt":1,"rank":0,"rankk":1,"records":[]})"),
            "batch: rankk: unknown member; did you mean 'rank'?");
  EXPECT_EQ(batch_error(head + R"([{"sequence":1,"time_ms":1,"kind":"log","level":"info","text":"x"},)"
                               R"({"sequence":2,"time_ms":1,"kind":"log","level":"info","text":7}]})"),
            "batch: records[1].text: expected a string, found 7");
  EXPECT_EQ(batch_error(head + R"([{"sequence":0,"time_ms":1,"kind":"log","level":"info","text":"x"}]})"),
            "batch: records[0].sequence: expected at least 1, found 0");
  EXPECT_EQ(batch_error(head + R"([{"sequence":1,"rank":0,"time_ms":1,"kind":"log","level":"info","text":"x"}]})"),
            "batch: records[0].rank: unknown member");
  EXPECT_THAT(batch_from_json("r_x", parse_json(head + "[]}").value()).error(), HasSubstr("run: expected r_"));
}

TEST(Records, UnknownMembersAreCountedOnRequest) {
  const std::string text =
      R"({"attempt":1,"rank":0,"host":"h","mood":"good","records":[{"sequence":1,"time_ms":1,"kind":"step","update":1,)"
      R"("humidity":0.5,"loss":null,"haze":null,"non_finite":{"loss":"nan","haze":"inf"}},)"
      R"({"sequence":2,"time_ms":1,"kind":"eval","update":1,"set":"v","samples":[{"source":"a","reference":"b",)"
      R"("hypothesis":"c","votes":3}]}]})";
  EXPECT_EQ(batch_error(text), "batch: mood: unknown member");
  UnknownMembers unknown;
  const auto batch = batch_from_json(run_id, parse_json(text).value(), &unknown);
  ASSERT_TRUE(batch.ok()) << batch.error();
  EXPECT_EQ(unknown.count, 4);
  EXPECT_EQ(unknown.first, "mood");
  EXPECT_TRUE(std::isnan(std::get<StepRecord>(batch->at(0).body).loss));
  EXPECT_EQ(std::get<EvalRecord>(batch->at(1).body).samples.at(0).hypothesis, "c");
  const auto refused = [&](const std::string& member) {
    UnknownMembers passed_over;
    const std::string head = R"({"attempt":1,"rank":0,"records":[{"sequence":1,"time_ms":1,"kind":"step","update":1,)";
    return batch_from_json(run_id, parse_json(head + member + "}]}").value(), &passed_over).error();
  };
  EXPECT_EQ(refused(R"("loss":"low")"),
            "batch: records[0].loss: expected a number (or null and an entry in non_finite), found \"low\"");
  EXPECT_EQ(refused(R"("loss":1,"non_finite":{"loss":"nan"})"),
            "batch: records[0].non_finite: names a member that is not a null number");
}

TEST(Records, MetricsAreTheNumbersInOrderOfDeclaration) {
  const auto metrics = metrics_of(sample_step());
  ASSERT_GE(metrics.size(), 26U);
  EXPECT_EQ(metrics.front(), (std::pair<std::string, double>{"epoch", 1.25}));
  EXPECT_EQ(metrics[1].first, "loss");
  EXPECT_THAT(metrics, testing::Contains(std::pair<std::string, double>{"memory_bytes.weights", 123}));
  EXPECT_THAT(metrics, testing::Contains(std::pair<std::string, double>{"skipped", 1}));
  EXPECT_THAT(metrics, testing::Not(testing::Contains(testing::Key("update"))));
  EXPECT_THAT(metrics, testing::Not(testing::Contains(testing::Key("weights_digest"))));
}

TEST(Ids, AreDistinctValidAndSortByTime) {
  std::set<std::string> ids;
  for (int i = 0; i < 10000; ++i) ids.insert(make_id('r'));
  EXPECT_EQ(ids.size(), 10000U);
  for (const std::string& id : ids) ASSERT_TRUE(valid_id(id, 'r')) << id;
  const std::string early = make_id('c');
  const std::int64_t start = wall_time_ms();
  while (wall_time_ms() == start) {
  }
  EXPECT_LT(early, make_id('c'));
}

TEST(Ids, InvalidOnesAreRefused) {
  EXPECT_TRUE(valid_id(run_id, 'r'));
  EXPECT_FALSE(valid_id(run_id, 'c'));
  EXPECT_FALSE(valid_id("", 'r'));
  EXPECT_FALSE(valid_id("r_01J000000000000000000000", 'r')) << "short";
  EXPECT_FALSE(valid_id("r_01J0000000000000000000000ZZ", 'r')) << "long";
  EXPECT_FALSE(valid_id("r-01J0000000000000000000000Z", 'r'));
  EXPECT_FALSE(valid_id("r_01J000000000000000000000IZ", 'r')) << "I is no digit";
  EXPECT_FALSE(valid_id("r_01j0000000000000000000000z", 'r')) << "lower case";
  EXPECT_FALSE(valid_id("r_../../../../../../etc/passw", 'r'));
}

}  // namespace
}  // namespace babelring

#include "lab/probe/probe_compare.h"

#include <gmock/gmock.h>

#include <bit>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/failure.h"
#include "base/result.h"
#include "lab/probe/probe_run.h"
#include "tests/lab/probe/wrong_backend.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ProbeCompareTest : public testing::Test {
 protected:
  Probe save(const ProbePlan& plan, std::unique_ptr<Backend> backend = make_cpu_backend(1), int threads = 1) {
    const std::filesystem::path file = folder.path() / ("probe-" + std::to_string(files++) + ".jsonl");
    save_probe(plan, *backend, threads, file);
    return read_probe(file);
  }
  static std::string place(const RecordPair& pair) { return pair.record().key(); }
  TemporaryFolder folder;
  int files = 0;
};

TEST_F(ProbeCompareTest, EqualRunsAreTheSame) {
  for (const DType precision : {DType::f32, DType::bf16}) {
    ProbePlan plan = small_plan();
    plan.config.training.precision = precision;
    const Probe a = save(plan), b = save(plan);
    const ProbeComparison comparison = compare_probes(a, b, {});
    EXPECT_EQ(comparison.sameness, Sameness::same);
    EXPECT_FALSE(comparison.first);
    EXPECT_TRUE(comparison.header_lines.empty()) << comparison.header_lines[0];
    EXPECT_GT(comparison.pairs.size(), 300U);
    EXPECT_FALSE(a.batch.empty());
    EXPECT_EQ(a.header.environment, b.header.environment);
  }
}

TEST_F(ProbeCompareTest, NamesTheOpThatDiffers) {
  ProbePlan plan = small_plan();
  plan.updates = 1;
  const Probe a = save(plan), b = save(plan, std::make_unique<WrongBackend>(3));
  const ProbeComparison comparison = compare_probes(a, b, {});
  EXPECT_EQ(comparison.sameness, Sameness::differs);
  ASSERT_TRUE(comparison.first);
  const RecordPair& first = comparison.pairs[*comparison.first];
  EXPECT_THAT(place(first), AllOf(HasSubstr("1/0/backward/"), HasSubstr("linear_backward_data/dx/0")));
  EXPECT_EQ(first.element, 0);
  EXPECT_EQ(first.distance.worst.ulp, 1U);
  EXPECT_EQ(first.distance.different, 1);
  EXPECT_EQ(comparison.cause, FirstCause::op);
  // The row of that layer: its gradients that come later differ, what went before does not.
  const auto row = std::find_if(comparison.layers.begin(), comparison.layers.end(),
                                [&](const LayerRow& each) { return each.layer == first.record().layer; });
  ASSERT_NE(row, comparison.layers.end());
  EXPECT_EQ(row->cells[1], Sameness::same) << "grad_output";
  EXPECT_EQ(row->cells[2], Sameness::differs) << "grad_input";
  EXPECT_EQ(row->worst(), Sameness::differs);
  const json::object object = to_json(comparison);
  EXPECT_EQ(object.at("probes").as_string(), "differ");
  EXPECT_TRUE(object.at("this_op_differs").as_bool());
}

TEST_F(ProbeCompareTest, NamesLibrariesWhoseVersionsDiffer) {
  ProbePlan plan = small_plan();
  plan.updates = 1;
  Probe a = save(plan);
  Probe b = save(plan, std::make_unique<WrongBackend>(3));
  EXPECT_THAT(compare_probes(a, b, {}).library_lines, testing::IsEmpty());
  a.header.environment["oneDNN"] = "2.6.3";
  b.header.environment["oneDNN"] = "3.7.2";
  a.header.environment["SentencePiece"] = "0.1.97";
  b.header.environment["SentencePiece"] = "0.2.0";
  b.header.environment.erase("glibc");  // as a probe of an older program
  const ProbeComparison comparison = compare_probes(a, b, {});
  EXPECT_THAT(comparison.library_lines,
              testing::ElementsAre("oneDNN differs: 2.6.3 / 3.7.2", "SentencePiece differs: 0.1.97 / 0.2.0"));
  EXPECT_THAT(comparison.header_lines, testing::Not(testing::Contains(HasSubstr("SentencePiece"))));
  EXPECT_THAT(comparison.header_lines, testing::Contains(testing::StartsWith("glibc: ")));
  EXPECT_EQ(to_text(to_json(comparison).at("libraries")),
            R"(["oneDNN differs: 2.6.3 / 3.7.2","SentencePiece differs: 0.1.97 / 0.2.0"])");
}

TEST_F(ProbeCompareTest, SmallDifferencesAreClose) {
  ProbePlan plan = small_plan();
  plan.updates = 1;
  const Probe a = save(plan), b = save(plan, std::make_unique<WrongBackend>(3));
  EXPECT_EQ(compare_probes(a, b, {.tolerance = *Tolerance::parse("1e-2abs")}).sameness, Sameness::close);
  EXPECT_EQ(compare_probes(a, b, {.tolerance = *Tolerance::parse("1e-2abs,0ulp")}).sameness, Sameness::differs);
}

TEST_F(ProbeCompareTest, AnotherSeedDiffersInTheWeights) {
  ProbePlan other = small_plan();
  other.config.training.seed = 2;
  const Probe a = save(small_plan()), b = save(other);
  const ProbeComparison comparison = compare_probes(a, b, {});
  ASSERT_TRUE(comparison.first);
  EXPECT_EQ(place(comparison.pairs[*comparison.first]), "1/-1/start/embedding/start/weight of embedding/0");
  EXPECT_THAT(comparison.header_lines, testing::Contains(HasSubstr("weights before the first update: ")));
}

TEST_F(ProbeCompareTest, AnotherPrecisionDiffersFirstInTheEmbedding) {
  ProbePlan narrow = small_plan();
  narrow.config.training.precision = DType::bf16;
  const Probe a = save(small_plan()), b = save(narrow);
  const ProbeComparison comparison = compare_probes(a, b, {});
  ASSERT_TRUE(comparison.first);
  EXPECT_EQ(place(comparison.pairs[*comparison.first]), "1/0/forward/embedding/embedding_forward/y/0");
  EXPECT_EQ(comparison.cause, FirstCause::op) << "the weights are the same";
  const RecordPair& first = comparison.pairs[*comparison.first];
  ASSERT_GE(first.element, 0);
  EXPECT_GE(first.distance.worst.ulp, 1U) << "of bf16";
  EXPECT_LT(first.distance.worst.ulp, 1U << 12);
  EXPECT_NE(first.value_a, first.value_b);
  EXPECT_NEAR(first.value_a, first.value_b, 0.02) << "a rounded sum of an embedding and a position";
  EXPECT_EQ(compare_probes(a, b, {.tolerance = *Tolerance::parse("1abs")}).sameness, Sameness::close);
  EXPECT_THAT(comparison.header_lines, testing::Contains("precision: f32 and bf16"));
}

TEST_F(ProbeCompareTest, ThreadsChangeNothingOrTheOpThatIsNamed) {
  for (const bool fixed : {true, false}) {
    const auto backend = [&](int threads) {
      auto cpu = make_cpu_backend(threads);
      if (fixed) cpu->fix_blocking();
      return cpu;
    };
    const Probe a = save(small_plan(), backend(1), 1), b = save(small_plan(), backend(3), 3);
    const ProbeComparison comparison = compare_probes(a, b, {});
    EXPECT_THAT(comparison.header_lines, testing::Contains("threads: 1 and 3"));
    EXPECT_TRUE(!fixed || comparison.sameness == Sameness::same);
    EXPECT_FALSE(comparison.carried_on_from) << "the first op that differs has equal inputs";
    EXPECT_EQ(comparison.cause, comparison.first ? FirstCause::op : FirstCause::none);
  }
}

TEST_F(ProbeCompareTest, AnOpCarriesOnTheDifferencesOfItsInputs) {
  ProbePlan plan = small_plan();
  plan.updates = 1;
  plan.options.layers = "decoder.*";
  const Probe a = save(plan), b = save(plan, std::make_unique<WrongBackend>(0, 1u << 20));
  const ProbeComparison comparison = compare_probes(a, b, {});
  ASSERT_TRUE(comparison.first);
  // Each later pair that differs has an input that differs, or is another result of the first op.
  const auto& first_inputs = comparison.pairs[*comparison.first].a->inputs;
  std::set<std::int64_t> different;
  for (const RecordPair& pair : comparison.pairs) {
    if (pair.sameness == Sameness::same) continue;
    const auto& inputs = pair.a->inputs;
    EXPECT_TRUE(inputs == first_inputs ||
                std::any_of(inputs.begin(), inputs.end(), [&](std::int64_t n) { return different.contains(n); }))
        << place(pair);
    different.insert(pair.a->number);
  }
  EXPECT_GT(different.size(), 10U);
}

TEST_F(ProbeCompareTest, WholeTensorsGiveExactDistances) {
  ProbePlan plan = small_plan();
  plan.updates = 1;
  plan.options.tensors = "*/linear_backward_data/dx";
  const Probe a = save(plan), b = save(plan, std::make_unique<WrongBackend>(3));
  const ProbeComparison comparison = compare_probes(a, b, {});
  ASSERT_TRUE(comparison.first);
  const RecordPair& first = comparison.pairs[*comparison.first];
  EXPECT_TRUE(first.exact);
  EXPECT_EQ(first.distance.compared, first.record().shape.elements());
  EXPECT_EQ(first.distance.different, 1);
  plan.options.tensors = "nothing";
  EXPECT_THAT([&] { save(plan); }, ThrowsMessage<UsageFailure>(HasSubstr("tensors: 'nothing' matches no tensor")));
}

/// The seed's own use: some layers at both ends.
TEST_F(ProbeCompareTest, LayersThatWereLeftOutMayBeAtFault) {
  ProbePlan plan = small_plan();
  plan.updates = 1;
  plan.options.layers = "first3,last3";
  const Probe a = save(plan);
  for (const bool whole : {false, true}) {
    ProbePlan other = plan;
    if (whole) other.options.layers = "all";
    // A layer between them differs.
    const Probe b = save(other, std::make_unique<WrongBackend>(4, 1u << 22));
    const ProbeComparison comparison = compare_probes(a, b, {});
    ASSERT_TRUE(comparison.first);
    EXPECT_EQ(comparison.cause, whole ? FirstCause::not_compared : FirstCause::not_recorded)
        << place(comparison.pairs[*comparison.first]);
    const json::object object = to_json(comparison);
    EXPECT_FALSE(object.at("this_op_differs").as_bool());
    EXPECT_EQ(object.at("cause").as_string(), whole ? "inputs_not_compared" : "inputs_not_recorded");
    for (const RecordPair& pair : comparison.pairs) {
      if (pair.sameness != Sameness::missing) continue;
      ADD_FAILURE() << place(pair);
      break;
    }
    EXPECT_EQ(comparison.notes.size(), whole ? 1U : 0U);
  }
}

/// Each record of a probe with layers left out lists the records that a whole probe leads to without these layers.
TEST_F(ProbeCompareTest, RecordsInheritAllInputsOfWhatIsLeftOut) {
  ProbePlan plan = small_plan();
  plan.updates = 2;
  const Probe whole = save(plan);
  plan.options.layers = "first5,last5";
  const Probe part = save(plan);
  std::map<std::string, const ProbeRecord*> kept;
  for (const ProbeRecord& record : part.records) kept[record.key()] = &record;
  std::vector<std::set<std::string>> behind(whole.records.size());
  for (const ProbeRecord& record : whole.records) {
    std::set<std::string> inputs;
    for (const std::int64_t number : record.inputs) {
      const ProbeRecord& input = whole.records[static_cast<std::size_t>(number)];
      if (kept.contains(input.key())) {
        inputs.insert(input.key());
      } else {
        inputs.insert(behind[static_cast<std::size_t>(number)].begin(), behind[static_cast<std::size_t>(number)].end());
      }
    }
    behind[static_cast<std::size_t>(record.number)] = inputs;
    if (!kept.contains(record.key())) continue;
    std::set<std::string> listed;
    for (const std::int64_t number : kept[record.key()]->inputs) {
      listed.insert(part.records[static_cast<std::size_t>(number)].key());
    }
    EXPECT_EQ(listed, inputs) << record.key();
  }
}

TEST_F(ProbeCompareTest, ProbesOfOtherLayersAreComparedInWhatBothHave) {
  ProbePlan part = small_plan(), ends = small_plan(), none = small_plan();
  part.options.layers = "encoder.*";
  ends.options.layers = "first3,last3";
  none.options.layers = "decoder.*";
  const Probe a = save(small_plan()), b = save(part), c = save(ends), d = save(none);
  for (const auto& [first, second] : {std::pair{&a, &b}, {&b, &a}, {&b, &c}, {&c, &a}}) {
    const ProbeComparison comparison = compare_probes(*first, *second, {});
    EXPECT_EQ(comparison.sameness, Sameness::same) << place(comparison.pairs[comparison.first.value_or(0)]);
    EXPECT_THAT(comparison.notes, testing::Contains(HasSubstr("that only ")));
    EXPECT_THAT(comparison.header_lines, testing::Contains(HasSubstr("layers: ")));
  }
  EXPECT_THAT([&] { compare_probes(b, d, {}); }, ThrowsMessage<UsageFailure>(HasSubstr("no tensor in common")));
}

/// Layers that one model lacks come where they belong, and are the first that differs.
TEST_F(ProbeCompareTest, ALayerThatOneModelLacksIsTheFirstDifference) {
  ProbePlan deeper = small_plan();
  deeper.config.model.encoder_layers = 3;
  const Probe a = save(small_plan()), b = save(deeper);
  for (const auto& [first, second] : {std::pair{&a, &b}, {&b, &a}}) {
    const ProbeComparison comparison = compare_probes(*first, *second, {.anyway = true});
    ASSERT_TRUE(comparison.first);
    EXPECT_EQ(comparison.cause, FirstCause::missing) << place(comparison.pairs[*comparison.first]);
    EXPECT_THAT(place(comparison.pairs[*comparison.first]), HasSubstr("start/encoder.2."));
    EXPECT_FALSE(to_json(comparison).at("this_op_differs").as_bool());
  }
}

TEST_F(ProbeCompareTest, AnotherBatchIsNotTheOpsFault) {
  ProbePlan longer = small_plan();
  longer.random->source_tokens = 6;
  const Probe a = save(small_plan()), b = save(longer);
  EXPECT_EQ(compare_probes(a, b, {.anyway = true}).cause, FirstCause::batch);
}

TEST_F(ProbeCompareTest, SaysThatAFileOfWholeTensorsIsMissing) {
  ProbePlan plan = small_plan();
  plan.updates = 1;
  plan.options.tensors = "*/linear_backward_data/dx";
  const Probe a = save(plan), b = save(plan, std::make_unique<WrongBackend>(3));
  std::filesystem::remove(tensors_file(b.file));
  const ProbeComparison comparison = compare_probes(a, b, {});
  EXPECT_THAT(comparison.notes, testing::ElementsAre(HasSubstr("probe-1.safetensors is missing")));
  EXPECT_FALSE(comparison.pairs[*comparison.first].exact);
}

/// With tied tables, the projection to logits has a separate row.
TEST_F(ProbeCompareTest, TheProjectionIsNotTheEmbedding) {
  const Probe probe = save(small_plan());
  const ProbeComparison comparison = compare_probes(probe, probe, {});
  std::set<std::string> rows;
  for (const LayerRow& row : comparison.layers) rows.insert(row.layer);
  EXPECT_TRUE(rows.contains("output"));
  for (const ProbeRecord& record : probe.records) {
    EXPECT_FALSE(record.phase == "output_loss" && record.layer == "embedding") << record.key();
  }
}

TEST_F(ProbeCompareTest, RefusesAnotherModelOrBatch) {
  ProbePlan deeper = small_plan(), longer = small_plan(), forward = small_plan();
  deeper.config.model.encoder_layers = 3;
  longer.random->source_tokens = 6;
  forward.training = false;
  const Probe a = save(small_plan());
  for (const auto& [plan, what] : {std::pair{deeper, "models"}, {longer, "batches"}, {forward, "modes"}}) {
    const Probe b = save(plan);
    EXPECT_THAT(
        [&] { compare_probes(a, b, {}); },
        ThrowsMessage<UsageFailure>(AllOf(HasSubstr(std::string("have different ") + what), HasSubstr("--anyway"))));
    EXPECT_EQ(compare_probes(a, b, {.anyway = true}).sameness, Sameness::differs);
  }
}

TEST_F(ProbeCompareTest, InferenceHasNoGradients) {
  ProbePlan plan = small_plan();
  plan.training = false;
  const Probe probe = save(plan);
  EXPECT_EQ(probe.header.mode, "inference");
  for (const ProbeRecord& record : probe.records) {
    EXPECT_TRUE(record.role == ProbeRole::output || record.phase == "start") << record.key();
    EXPECT_EQ(record.op.find("dropout_backward"), std::string::npos);
  }
}

/// The memory of a device cannot be read by the host; the values are those of the CPU.
TEST_F(ProbeCompareTest, ADeviceGivesTheSameProbe) {
  const Probe a = save(small_plan()), b = save(small_plan(), make_test_backend("closed"));
  const ProbeComparison comparison = compare_probes(a, b, {.anyway = true});
  for (const RecordPair& pair : comparison.pairs) EXPECT_EQ(pair.sameness, Sameness::same) << place(pair);
  EXPECT_EQ(a.batch, b.batch);
}

TEST(RandomBatch, ReadsItsText) {
  const Result<RandomBatch> batch = RandomBatch::parse("random:64x32/31");
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->sentences, 64);
  EXPECT_EQ(batch->source_tokens, 32);
  EXPECT_EQ(batch->target_tokens, 31);
  for (const char* text : {"", "random", "random:64", "random:64x32", "random:0x1/1", "random:1x1/1x", "64x32/32"}) {
    EXPECT_FALSE(RandomBatch::parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace babelring

#include "lab/memory/memory_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "nmt/train/setup/memory_plan.h"
#include "tests/lab/lab_training.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/small_training.h"

namespace babelring {
namespace {

using testing::HasSubstr;

constexpr std::int64_t vocabulary = 100, source_tokens = 40, target_tokens = 56;

TrainConfig config_of(const std::string& preset, DType precision = DType::f32) {
  TrainConfig config;
  config.preset = preset;
  config.model = model_preset(preset);
  config.training.precision = precision;
  if (config.model.encoder_layers == 0) config.task = Task::gssm;
  config.data.sequence_length = 9;
  return config;
}

MemoryReport dry_report(const TrainConfig& config) {
  DryUpdate update(config, {.vocabulary = vocabulary, .source_tokens = source_tokens, .target_tokens = target_tokens});
  return trace_dry_update(update);
}

/// The same update on the CPU, with weights of 0.
MemoryReport real_report(const TrainConfig& config) {
  const auto backend = make_cpu_backend(1);
  const auto communicator = make_single_communicator();
  ModelReplica replica(config, vocabulary, *backend, *communicator);
  StepClock clock([] { return nullptr; });
  UpdateGradients gradients(config, replica, clock);
  UpdateBatches batches{.update = 1, .global_target_tokens = target_tokens};
  const bool sequences = config.task == Task::gssm;
  const std::int64_t sentences =
      sequences ? target_tokens / (config.data.sequence_length - 1) : dry_sentences(source_tokens, target_tokens);
  batches.micro_batches.push_back(even_batch(sequences ? 0 : source_tokens, target_tokens, sentences));
  MemoryTrace trace(replica.model.parameters(), replica.arenas);
  backend->observe(&trace);
  gradients.forward_backward(batches, 0);
  gradients.reduce();
  const GradientSquares squares = gradients.squares();
  {
    const WorkRange range(*backend, "optimizer");
    replica.adam.start_step(*backend, 1, squares.on_backend);
  }
  backend->observe(nullptr);
  MemoryReport report;
  trace.fill(report);
  return report;
}

std::string text_of(const MemoryMoment& moment) {
  return fmt::format("{} {} {} {} {}", moment.phase, moment.layer, moment.op, moment.saved, moment.scratch);
}

class DryMemory : public testing::TestWithParam<const char*> {};

TEST_P(DryMemory, EqualsThatOfARealUpdateAtEveryOp) {
  const TrainConfig config = config_of(GetParam());
  const MemoryReport dry = dry_report(config), real = real_report(config);
  EXPECT_EQ(dry.saved_peak, real.saved_peak);
  EXPECT_EQ(dry.scratch_peak, real.scratch_peak);
  ASSERT_EQ(dry.moments.size(), real.moments.size());
  for (std::size_t i = 0; i < dry.moments.size(); ++i)
    ASSERT_EQ(text_of(dry.moments[i]), text_of(real.moments[i])) << i;
  EXPECT_EQ(dry.peak, real.peak);
  EXPECT_EQ(dry.other, real.other);
}

INSTANTIATE_TEST_SUITE_P(Presets, DryMemory,
                         testing::Values("transformer-tiny", "transformer-base", "modern-tiny", "lm-288"));

TEST(MemoryTrace, TheMomentsReachThePeaksOfTheArenas) {
  const MemoryReport report = dry_report(config_of("transformer-tiny"));
  std::int64_t saved = 0, scratch = 0;
  for (const MemoryMoment& moment : report.moments) {
    saved = std::max(saved, moment.saved);
    scratch = std::max(scratch, moment.scratch);
    EXPECT_LE(moment.bytes(), report.moments[report.peak].bytes());
  }
  EXPECT_EQ(saved, report.saved_peak);
  EXPECT_EQ(scratch, report.scratch_peak);
}

TEST(MemoryTrace, NamesTheOwnersOfThePeak) {
  const MemoryReport report = dry_report(config_of("transformer-tiny"));
  ASSERT_EQ(report.owners.size(), 10U);
  std::int64_t sum = report.other;
  for (std::size_t i = 0; i < report.owners.size(); ++i) {
    const MemoryOwner& owner = report.owners[i];
    sum += owner.bytes;
    EXPECT_FALSE(owner.layer.empty() || owner.op.empty() || owner.field.empty()) << i;
    EXPECT_LE(owner.bytes, report.owners[i == 0 ? 0 : i - 1].bytes);
  }
  EXPECT_EQ(sum, report.moments[report.peak].bytes());
  EXPECT_GE(report.other, 0);
  const std::int64_t parameters = count_parameters(model_preset("transformer-tiny"), vocabulary);
  EXPECT_GE(report.beside_arenas.at("weights"), 4 * parameters);
  EXPECT_EQ(report.beside_arenas.at("moments"), 2 * report.beside_arenas.at("weights"));
}

TEST(MemoryTrace, MeasuresModelsThatNoMachineHolds) {
  TrainConfig config = config_of("transformer-big", DType::bf16);
  config.training.device = DeviceChoice::cuda;
  config.model.width = 8192;
  config.model.inner = 32768;
  config.model.heads = 64;
  DryUpdate update(config, {.vocabulary = 1 << 17, .source_tokens = 1 << 18, .target_tokens = 1 << 18});
  const MemoryReport report = trace_dry_update(update);
  EXPECT_EQ(report.device, "cuda");
  EXPECT_GT(report.moments[report.peak].bytes(), std::int64_t{1} << 37);
}

TEST(MemoryTrace, RefusesBatchesWithoutTokens) {
  EXPECT_THAT([] { DryUpdate(config_of("transformer-tiny"), {.vocabulary = 10, .source_tokens = 5}); },
              testing::ThrowsMessage<Failure>(HasSubstr("dry update: expected 1 to 16777216 target tokens, found 0")));
}

TEST(MemoryReport, ReadsBackEqual) {
  MemoryReport report = dry_report(config_of("transformer-tiny"));
  report.update = 7;
  report.rank = 1;
  const std::string text = to_text(to_json(report));
  EXPECT_LT(text.size(), std::size_t{256} << 10) << "it travels with the record";
  const auto back = memory_report_from_json(parse_json(text).value());
  ASSERT_TRUE(back.ok()) << back.error();
  EXPECT_EQ(to_text(to_json(*back)), text);
}

TEST(MemoryReport, SaysWhatIsWrongWithAFile) {
  const json::object good = to_json(dry_report(config_of("transformer-tiny")));
  const auto fault = [&](const char* member, const json::value& value) {
    json::object bad = good;
    bad[member] = value;
    return memory_report_from_json(bad).error();
  };
  EXPECT_EQ(memory_report_from_json(5).error(), "memory report: expected an object");
  EXPECT_EQ(fault("format", 2), "memory report: expected format 1, found 2");
  EXPECT_EQ(fault("owners", nullptr), "memory report: owners: expected an array");
  EXPECT_EQ(fault("owners", json::array{1}), "memory report: owners: expected arrays of 4 values");
  EXPECT_EQ(fault("moments", json::array{json::array{"", "", "", 1, "x"}}),
            "memory report: moments: expected an integer, found \"x\"");
  EXPECT_THAT(fault("peak", 1 << 30), HasSubstr("peak: expected the index of one of"));
}

/// The labels of the phases: x, y and text.
std::vector<std::tuple<double, double, std::string>> labels_of(const std::string& page) {
  std::vector<std::tuple<double, double, std::string>> labels;
  const std::regex label("/><text x=\"([0-9.]+)\" y=\"([0-9.]+)\">([a-z_]*)</text>");
  for (std::sregex_iterator match(page.begin(), page.end(), label), end; match != end; ++match) {
    labels.emplace_back(std::stod((*match)[1]), std::stod((*match)[2]), (*match)[3]);
  }
  return labels;
}

TEST(MemoryReport, TheLabelsOfItsPageDoNotOverlap) {
  for (const char* preset : {"transformer-tiny", "lm-288"}) {
    const auto labels = labels_of(html_of(dry_report(config_of(preset))));
    ASSERT_GE(labels.size(), 4U);
    std::map<double, double> ends;  // by row
    for (const auto& [x, y, text] : labels) {
      EXPECT_GE(x, ends[y]) << preset << ' ' << text;
      ends[y] = x + 6 * static_cast<double>(text.size());
      EXPECT_LE(ends[y], 1080) << text << " ends within the drawing";
    }
  }
}

/// A language model has no source.
TEST(MemoryReport, SequencesHaveTargetsOnly) {
  EXPECT_THAT(text_of(dry_report(config_of("lm-288"))), HasSubstr("dry update, cpu f32, 56 target tokens"));
}

TEST(MemoryReport, IsShownAsTextTableAndPage) {
  const MemoryReport report = dry_report(config_of("transformer-tiny"));
  const std::string text = text_of(report), csv = csv_of(report), page = html_of(report);
  EXPECT_THAT(text, HasSubstr("dry update, cpu f32, 40 source and 56 target tokens"));
  EXPECT_THAT(text, HasSubstr(fmt::format("peak at op {} of {}: ", report.peak + 1, report.moments.size())));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), std::ssize(report.moments) + 1);
  const std::string peak = grouped(static_cast<double>(report.peak_bytes())) + " bytes</text>";
  EXPECT_THAT(text, testing::ContainsRegex("peak in bytes +" + grouped(static_cast<double>(report.peak_bytes()))));
  for (const auto& [name, bytes] : report.beside_arenas) {
    EXPECT_THAT(page, HasSubstr("class=\"" + name + "\" points="));
    EXPECT_THAT(page, HasSubstr("<td>" + grouped(static_cast<double>(bytes)) + "</td>"));
  }
  EXPECT_THAT(page, HasSubstr(peak));
  EXPECT_THAT(page, testing::AllOf(HasSubstr("<svg viewBox="), HasSubstr("class=\"scratch\""), HasSubstr("peak: "),
                                   testing::Not(HasSubstr("http"))));
}

using lab_training::Records, lab_training::train;

TEST(MemoryTool, TracesOneUpdateAndChangesNoBits) {
  const TemporaryFolder temporary;
  TrainConfig config = small_config();
  config.training.stop_after = "4u";
  const Records without = train(config, temporary / "lab");
  EXPECT_FALSE(std::filesystem::exists(temporary / "lab"));
  config.lab.memory.at = 3;
  const Records with = train(config, temporary / "lab");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(with.steps[i].weights_digest, without.steps[i].weights_digest);

  ASSERT_EQ(with.artifacts.size(), 1U);
  const ArtifactRecord& artifact = with.artifacts[0];
  EXPECT_EQ(artifact.name, "memory-update-00000003-rank-0.json");
  EXPECT_EQ(artifact.update, 3);
  const auto stored = parse_json(read_file(temporary / "lab" / artifact.name));
  EXPECT_EQ(stored.value(), artifact.content);
  const MemoryReport report = memory_report_from_json(*stored).value();
  EXPECT_EQ(report.update, 3);
  EXPECT_EQ(report.source_tokens, with.steps[2].source_tokens);
  const MemoryMoment& peak = report.moments.at(report.peak);
  EXPECT_LE(peak.bytes(), report.saved_peak + report.scratch_peak);
  EXPECT_EQ(report.moments.back().phase, "optimizer");
}

}  // namespace

}  // namespace babelring

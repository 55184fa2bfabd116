// two_ranks: the records of two ranks in a real training run, 60 updates on the toy corpus of tests/e2e under mpirun,
// on a shared two-core machine, with an evaluation every 30 and a checkpoint every 25 updates.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/records/records.h"
#include "insight/verdict/verdict.h"

namespace babelring::verdict {
namespace {

Step step_of(const RecordHeader& header, const StepRecord& step) {
  return {.update = step.update,
          .time_ms = header.time_ms,
          .times = step.times,
          .network_tx_bytes = static_cast<double>(step.network_tx_bytes),
          .network_link_bytes_per_second = static_cast<double>(step.network_link_bytes_per_second),
          .busy_fraction = step.busy_fraction};
}

Input read_stream(const std::string& name) {
  std::ifstream file(std::string(BABELRING_SOURCE_DIR "/tests/golden/verdict/") + name);
  Input input;
  input.facts.first_update = 1;
  for (std::string line; std::getline(file, line);) {
    const Record record = record_from_json(parse_json(line).value().as_object()).value();
    const RecordHeader& header = record.header;
    if (const auto* started = std::get_if<LifecycleRecord>(&record.body)) {
      input.facts.world_size = started->world_size;
      input.facts.parameters = started->parameters;
      if (started->config.find("bucket_mb: 4") != std::string::npos) {
        input.facts.bucket = {4, BucketSize::Source::configured};
        input.facts.gradient_wire = "f32";
      }
    } else if (const auto* step = std::get_if<StepRecord>(&record.body)) {
      const auto rank = static_cast<std::size_t>(header.rank);
      if (input.ranks.size() <= rank) input.ranks.push_back({header.rank, header.host, {}});
      input.ranks[rank].steps.push_back(step_of(header, *step));
    } else if (const auto* eval = std::get_if<EvalRecord>(&record.body)) {
      input.pauses.push_back({Pause::Kind::evaluation, eval->update, eval->seconds});
    } else if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record.body)) {
      input.pauses.push_back({Pause::Kind::checkpoint, checkpoint->update, checkpoint->write_seconds});
    }
  }
  std::sort(input.pauses.begin(), input.pauses.end(), [](const auto& a, const auto& b) { return a.update < b.update; });
  return input;
}

TEST(RecordedStream, IsJudgedByTheWaitsOfItsSteps) {
  const Input input = read_stream("two_ranks.jsonl");
  ASSERT_EQ(input.ranks.size(), 2u);
  ASSERT_EQ(input.ranks[0].steps.size(), 60u);
  const Verdict verdict = judge(input);
  EXPECT_EQ(verdict.kind, Kind::network_bound);
  EXPECT_THAT(verdict.sentence,
              ::testing::StartsWith("network-bound: 26 % of each step waits for all-reduce (11 of 42 ms)"));
  EXPECT_THAT(verdict.advice, ::testing::HasSubstr("fewer ranks with more training.threads each"));
  EXPECT_LT(verdict.confidence, 0.7);  // step times vary on shared cores
  double shares = -1;                  // the first entry is the whole update
  for (const Evidence& evidence : verdict.evidence) shares += std::isfinite(evidence.fraction) ? evidence.fraction : 0;
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_EQ(verdict.first_update, 16);
  EXPECT_EQ(verdict.last_update, 60);
}

/// Synthetic, modelled on four ranks on two hosts, with each process on hostB limited to a tenth of a processor.
TEST(RecordedStream, NamesTheSlowHost) {
  const Verdict verdict = judge(read_stream("slow_host.jsonl"));
  EXPECT_EQ(verdict.kind, Kind::straggler_bound);
  EXPECT_THAT(verdict.sentence, ::testing::HasSubstr("the other ranks wait for hostB for "));
  EXPECT_THAT(verdict.sentence, ::testing::HasSubstr("its 2 ranks are last in 45 of 45 updates"));
}

/// Synthetic, modelled on a tiny model on four hosts with two ranks each, connected at 1 Gbit/s.
TEST(RecordedStream, PromisesNothingFromFewerBytesIfTheLinkIsIdle) {
  const Verdict verdict = judge(read_stream("latency.jsonl"));
  EXPECT_EQ(verdict.kind, Kind::network_bound);
  EXPECT_THAT(verdict.sentence, ::testing::HasSubstr("% of the link's rate: latency, not bandwidth"));
  EXPECT_THAT(verdict.sentence + verdict.advice, ::testing::Not(::testing::HasSubstr("bf16")));
}

}  // namespace
}  // namespace babelring::verdict

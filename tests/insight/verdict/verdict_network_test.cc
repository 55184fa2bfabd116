#include <gmock/gmock.h>

#include "insight/verdict/savings.h"
#include "insight/verdict/verdict.h"
#include "tests/insight/verdict/stream.h"

namespace babelring::verdict {
namespace {

using testing::every;
using testing::expect_whole;
using ::testing::HasSubstr;
using testing::RankTimes;
using ::testing::StartsWith;
using testing::Stream;
using testing::value_of;

TEST(Verdict, NamesTheNetworkOfTheDistributedRun) {
  // 2 hosts x 2 V100, 60,880,896 parameters in f32 over about 1.8 Gbit/s: 1.713 s per step, 218-223 MB/s sent per host.
  Stream run;
  const RankTimes rank = {
      .host = "hostA", .data_ms = 2, .forward_ms = 210, .backward_ms = 400, .optimizer_ms = 38, .other_ms = 3};
  run.ranks = {rank, rank, rank, rank};
  run.ranks[2].host = run.ranks[3].host = "hostB";
  run.ranks[0].network_tx_bytes = run.ranks[2].network_tx_bytes = 220e6 * 1.713;  // the busiest rank of a host counts
  run.network_ms = 1055;
  run.communication_ms = 1440;
  run.facts.parameters = 60'880'896;
  run.facts.gradient_wire = "f32";
  run.facts.bucket = {25, BucketSize::Source::configured};
  const Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::network_bound);
  EXPECT_THAT(verdict.sentence, StartsWith("network-bound: 61 % of each step waits for all-reduce (1,055 of 1,7"));
  EXPECT_THAT(verdict.sentence, HasSubstr("bf16 gradients would save about 710 ms"));
  EXPECT_THAT(verdict.advice, HasSubstr("communication.gradient_wire=bf16"));
  EXPECT_GT(verdict.confidence, 0.9);
  EXPECT_NEAR(value_of(verdict, "update_ms"), 1713, 25);
  EXPECT_NEAR(value_of(verdict, "host_tx"), 220e6 * 1.713 / 1.44, 2e6);
  expect_whole(verdict);
}

TEST(Verdict, TellsOfALateRankBesideTheNetwork) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}, RankTimes{.host = "hostB"}, RankTimes{.host = "hostB"}};
  run.ranks[3].backward_ms = 280;
  run.network_ms = 400, run.communication_ms = 500;
  run.facts.parameters = 10'000'000;
  const Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::network_bound);
  EXPECT_THAT(verdict.sentence, ::testing::ContainsRegex(" waits for all-reduce .* and 10 % for rank 3 on hostB; "));
  expect_whole(verdict);
  run.ranks[3].backward_ms = 210;
  EXPECT_THAT(judge(run.input()).sentence, ::testing::Not(HasSubstr("rank 3"))) << "1 % is none of its business";
}

TEST(Verdict, DoesNotOfferBf16IfItIsOnOrAllRanksShareAHost) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{.host = "hostB"}};
  run.network_ms = 400, run.communication_ms = 600;
  run.facts = {.parameters = 10'000'000, .gradient_wire = "bf16", .bucket = {4, BucketSize::Source::configured}};
  Verdict verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::network_bound);
  EXPECT_THAT(verdict.sentence, HasSubstr("doubling data.tokens_per_update would save about 220 ms"));
  EXPECT_THAT(verdict.advice, ::testing::Not(HasSubstr("bf16")));
  EXPECT_THAT(verdict.advice, HasSubstr("communication.gradient_wire=int8"));

  run.facts.gradient_wire = "int8";
  verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::network_bound);
  EXPECT_THAT(verdict.advice, ::testing::Not(HasSubstr("gradient_wire")));

  run.facts.gradient_wire = "f32";
  run.ranks[1].host = "hostA";  // one host: gradients are exchanged through its memory
  verdict = judge(run.input());
  EXPECT_EQ(verdict.kind, Kind::network_bound);
  EXPECT_THAT(verdict.advice, HasSubstr("fewer ranks with more training.threads"));
}

TEST(Verdict, DistinguishesManySmallMessagesFromManyBytes) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{.host = "hostB"}};
  run.network_ms = 200;
  run.communication_ms = 400;
  run.facts.gradient_wire = "f32";
  run.facts.parameters = 10'000'000;
  run.facts.bucket = {0.02, BucketSize::Source::configured};  // 2,000 all-reduces of 20 kB
  const Verdict verdict = judge(run.input());
  EXPECT_THAT(verdict.sentence, HasSubstr("larger buckets would save about 180 ms"));
  EXPECT_THAT(verdict.advice, HasSubstr("communication.bucket_mb=4: 2000 all-reduces"));
  run.facts.bucket.source = BucketSize::Source::chosen;
  EXPECT_THAT(judge(run.input()).advice, ::testing::Not(HasSubstr("bucket_mb"))) << "the worker measured the link";
}

TEST(Verdict, DoesNotBlameTheNetworkForTheWaitAfterACheckpoint) {
  // After every fifth update, rank 1 continues at once and waits in the next all-reduce while rank 0 still saves.
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{}};
  run.updates = 120;
  run.pauses = every(Pause::Kind::checkpoint, 5, 115, 1);
  Input input = run.input();
  for (Step& step : input.ranks[1].steps) {
    if ((step.update - 1) % 5 != 0 || step.update == 1) continue;
    step.times.exposed_communication += 1000;
    step.times.step += 1000;
  }
  const Verdict verdict = judge(input);
  EXPECT_EQ(verdict.kind, Kind::checkpoint_bound);
  EXPECT_LT(value_of(verdict, "network_wait_ms"), 20);
  EXPECT_LT(value_of(verdict, "straggler_wait_ms"), 20);
}

TEST(Verdict, DistinguishesLatencyFromBandwidth) {
  Stream run;
  run.ranks.assign(4, RankTimes{.forward_ms = 20, .backward_ms = 30, .optimizer_ms = 2});
  run.ranks[2].host = run.ranks[3].host = "hostB";
  run.network_ms = 40;
  run.communication_ms = 70;
  run.facts.gradient_wire = "f32";
  run.facts.bucket = {4, BucketSize::Source::configured};
  run.facts.parameters = 200'000;
  for (RankTimes& rank : run.ranks) rank.network_tx_bytes = 1.6e6;  // 23 MB/s
  for (const double link : {0.0, 125e6}) {                          // 0: unknown, assumed to be 1 Gbit/s
    Input input = run.input();
    for (RankSteps& rank : input.ranks) {
      for (Step& step : rank.steps) step.network_link_bytes_per_second = link;
    }
    const Verdict verdict = judge(input);
    EXPECT_EQ(verdict.kind, Kind::network_bound);
    EXPECT_THAT(verdict.sentence,
                HasSubstr(link > 0 ? "at 18 % of the link's rate: latency, not bandwidth"
                                   : "at 18 % of 1 Gbit/s (no host reports its link's rate): latency"));
    EXPECT_THAT(verdict.advice, ::testing::Not(HasSubstr("bf16")));
    EXPECT_THAT(verdict.advice, HasSubstr("data.tokens_per_update"));
    EXPECT_NEAR(value_of(verdict, "link_share"), 0.18, 0.01);
  }
  for (RankTimes& rank : run.ranks) rank.network_tx_bytes = 7e6;  // 100 MB/s: the link is full
  const Verdict verdict = judge(run.input());
  EXPECT_THAT(verdict.sentence, ::testing::Not(HasSubstr("latency")));
  EXPECT_THAT(verdict.advice, HasSubstr("bf16"));
}

TEST(Savings, AreThePredictedOnes) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{.host = "hostB"}};
  run.network_ms = 400, run.communication_ms = 600;
  run.facts = {.parameters = 10'000'000, .gradient_wire = "f32", .bucket = {4, BucketSize::Source::configured}};
  const Input input = run.input();
  // Half the bytes take half of 600 ms, of which backward hides 200.
  EXPECT_NEAR(saving_ms(input, {.wire = GradientWire::bf16}).value(), 300, 20);
  // Once for twice the tokens; the optimizer, too, works once.
  EXPECT_NEAR(saving_ms(input, {.accumulate = 2}).value(), 200 + 10, 15);
  EXPECT_EQ(saving_ms(input, {.bucket_mb = 1}), std::nullopt) << "more messages save nothing";
  EXPECT_EQ(saving_ms(input, {.algorithm = AllReduceAlgorithm::shared_memory}), std::nullopt) << "of two hosts";
}

TEST(Savings, AreNotToldOfARunThatTheModelDoesNotDescribe) {
  Stream run;
  run.ranks = {RankTimes{}, RankTimes{.host = "hostB"}};
  run.network_ms = 400, run.communication_ms = 1500;  // backward could hide 200 ms only, but 1,100 are hidden
  run.facts = {.parameters = 10'000'000, .gradient_wire = "f32", .bucket = {4, BucketSize::Source::configured}};
  EXPECT_EQ(saving_ms(run.input(), {.wire = GradientWire::bf16}), std::nullopt);
  EXPECT_THAT(judge(run.input()).sentence, HasSubstr("bf16 gradients would shorten that"));
}
}  // namespace
}  // namespace babelring::verdict

#include "nmt/train/evaluation_policy.h"

#include <gtest/gtest.h>

#include <cmath>

namespace babelring {
namespace {

EvaluationPolicy make_policy(const char* every, const char* bleu_every, int patience = 0) {
  ValidationConfig config;
  config.every = every;
  config.bleu_every = bleu_every;
  config.patience = patience;
  return EvaluationPolicy(config);
}

Evaluation due_after(const EvaluationPolicy& policy, std::int64_t update) {
  return policy.due({.update = update - 1}, {.update = update});
}

TEST(EvaluationPolicy, TranslatesAtSomeOfTheEvaluations) {
  const EvaluationPolicy policy = make_policy("2u", "4u");
  EXPECT_EQ(due_after(policy, 1), Evaluation::none);
  EXPECT_EQ(due_after(policy, 2), Evaluation::scores);
  EXPECT_EQ(due_after(policy, 4), Evaluation::translations);
  EXPECT_EQ(policy.at_end(), Evaluation::translations);
  EXPECT_EQ(make_policy("2u", "0u").at_end(), Evaluation::scores);
}

TEST(EvaluationPolicy, EvaluatesAnUpdateOnce) {
  EvaluationPolicy policy = make_policy("2u", "4u");
  TrainingState state;
  EvalRecord record{.update = 4, .loss = 2};
  policy.note(record, Evaluation::scores, state);
  EXPECT_TRUE(policy.done(Evaluation::scores, 4));
  EXPECT_FALSE(policy.done(Evaluation::translations, 4));
  policy.note(record, Evaluation::translations, state);
  EXPECT_TRUE(policy.done(Evaluation::translations, 4));
  ASSERT_NE(policy.newest(4), nullptr);
  EXPECT_EQ(policy.newest(4)->loss, 2);
  EXPECT_EQ(policy.newest(5), nullptr);
  policy.rewind();
  EXPECT_FALSE(policy.done(Evaluation::scores, 4));
  EXPECT_EQ(policy.newest(4), nullptr);
}

TEST(EvaluationPolicy, TheHighestBleuIsTheBest) {
  EvaluationPolicy policy = make_policy("1u", "1u", 2);
  TrainingState state;
  const auto is_best = [&](double bleu, Evaluation evaluation = Evaluation::translations, double loss = 2) {
    EvalRecord record{.update = 1, .loss = loss, .sacrebleu = bleu};
    policy.note(record, evaluation, state);
    return record.best;
  };
  EXPECT_TRUE(is_best(20));
  EXPECT_FALSE(is_best(20));
  EXPECT_FALSE(is_best(90, Evaluation::scores)) << "without translations there is no BLEU";
  EXPECT_EQ(state.evaluations_since_best, 1);
  EXPECT_FALSE(policy.out_of_patience(state));
  EXPECT_FALSE(is_best(30, Evaluation::translations, std::nan("")));
  EXPECT_TRUE(policy.out_of_patience(state));
  EXPECT_TRUE(is_best(21));
  EXPECT_EQ(state.best_score, 21);
  EXPECT_FALSE(policy.out_of_patience(state));
}

TEST(EvaluationPolicy, TheLossDecidesBetweenEqualScores) {
  EvaluationPolicy policy = make_policy("1u", "1u", 2);
  TrainingState state;
  const auto is_best = [&](double bleu, double loss) {
    EvalRecord record{.update = 1, .loss = loss, .sacrebleu = bleu};
    policy.note(record, Evaluation::translations, state);
    return record.best;
  };
  EXPECT_TRUE(is_best(0, 5));
  EXPECT_TRUE(is_best(0, 4));
  EXPECT_FALSE(is_best(0, 4));
  EXPECT_FALSE(is_best(0, 4.5));
  EXPECT_TRUE(policy.out_of_patience(state));
  EXPECT_TRUE(is_best(0, 3));
  EXPECT_FALSE(policy.out_of_patience(state));
  EXPECT_TRUE(is_best(1, 9)) << "the score comes first";
  EXPECT_EQ(run_state_from_json(to_json(state)).best_loss, 9);
}

TEST(EvaluationPolicy, TheRecordSaysHowItsScoresAreMeasured) {
  EvaluationPolicy policy = make_policy("1u", "1u");
  const auto noted = [&](const json::object& scoring) {
    TrainingState state;
    state.scoring = scoring;
    EvalRecord record{.update = 1, .loss = 3, .sacrebleu = 20};
    policy.note(record, Evaluation::translations, state);
    return record;
  };
  const std::string digest(64, 'a'), other(64, 'b');
  const EvalRecord greedy = noted({{"beam", "1"}, {"digest", digest}}),
                   beam = noted({{"beam", "4"}, {"digest", digest}});
  EXPECT_EQ(greedy.set_digest, std::string(16, 'a'));
  EXPECT_EQ(greedy.scoring.size(), 16u);
  EXPECT_EQ(noted({{"beam", "1"}, {"digest", digest}}).scoring, greedy.scoring);
  EXPECT_EQ(beam.set_digest, greedy.set_digest);
  EXPECT_NE(beam.scoring, greedy.scoring);
  EXPECT_NE(noted({{"beam", "1"}, {"digest", other}}).scoring, greedy.scoring);
  EXPECT_EQ(noted({}).scoring + noted({}).set_digest, "") << "unknown";
}

TEST(EvaluationPolicy, TheRecordSaysTheDifferenceToTheBestBefore) {
  EvaluationPolicy policy = make_policy("1u", "1u", 1);
  TrainingState state;
  const auto noted = [&](std::int64_t update, double bleu, const char* statistics) {
    EvalRecord record{.update = update, .loss = 3, .sacrebleu = bleu};
    record.resamples = {{.metric = "chrF2", .score = 50, .scores = {1}},
                        {.metric = "BLEU", .statistics = statistics, .score = bleu, .scores = {bleu, bleu + update}}};
    policy.note(record, Evaluation::translations, state);
    return record;
  };
  const EvalRecord first = noted(10, 20, "a");
  EXPECT_TRUE(std::isnan(first.above_best.difference)) << "there is no best before";
  EXPECT_EQ(first.resamples.size(), 2U);
  EXPECT_EQ(state.best_resamples.metric, "BLEU");
  state = run_state_from_json(to_json(state));  // as a run that resumes has it
  const EvalRecord worse = noted(20, 19, "b");
  EXPECT_EQ(difference_to_best(worse).substr(0, 35), "1.00 BLEU worse than update 10 (p =");
  EXPECT_TRUE(worse.resamples.empty()) << "only those of the best are compared later";
  EXPECT_EQ(policy.patience_text(state).substr(0, 97),
            "1 evaluations without a better one; the last, BLEU 19.00, is 1.00 BLEU worse than update 10 (p = ");
  EXPECT_EQ(difference_to_best(noted(30, 20, "a")), "equal to update 10 in BLEU");
  EXPECT_TRUE(noted(40, 21, "c").best);
  EXPECT_EQ(state.best_update, 40);
  EXPECT_EQ(state.best_resamples.statistics, "c");
  EXPECT_EQ(make_policy("1u", "1u", 1).patience_text(state), "0 evaluations without a better one");
}

TEST(EvaluationPolicy, AnOlderCheckpointHasADifferenceWithoutP) {
  EvaluationPolicy policy = make_policy("1u", "1u");
  TrainingState state{.best_score = 20};
  EvalRecord record{.update = 10, .loss = 3, .sacrebleu = 20.5};
  record.resamples = {{.metric = "BLEU", .score = 20.5, .scores = {20}}};
  policy.note(record, Evaluation::translations, state);
  EXPECT_EQ(difference_to_best(record), "0.50 BLEU better than the best before");
}

TEST(EvaluationPolicy, PatienceBeginsWhenConfigured) {
  ValidationConfig config;
  config.patience = 2;
  config.patience_after = "100u";
  EvaluationPolicy policy(config);
  TrainingState state;
  const auto out_of_patience_after = [&](std::int64_t update) {
    state.progress.update = update;
    EvalRecord record{.update = update, .loss = 2, .sacrebleu = 1};
    policy.note(record, Evaluation::translations, state);
    return policy.out_of_patience(state);
  };
  for (const std::int64_t early : {10, 20, 30, 99}) EXPECT_FALSE(out_of_patience_after(early));
  EXPECT_FALSE(out_of_patience_after(100));
  EXPECT_TRUE(out_of_patience_after(110));
}

TEST(EvaluationPolicy, TheLowestLossIsTheBestIfBleuIsOff) {
  EvaluationPolicy policy = make_policy("1u", "0u");
  TrainingState state;
  const auto is_best = [&](double loss) {
    EvalRecord record{.update = 1, .loss = loss};
    policy.note(record, Evaluation::scores, state);
    return record.best;
  };
  EXPECT_TRUE(is_best(5));
  EXPECT_TRUE(is_best(4));
  EXPECT_FALSE(is_best(4.5));
  EXPECT_EQ(state.best_score, -4);
}

}  // namespace
}  // namespace babelring

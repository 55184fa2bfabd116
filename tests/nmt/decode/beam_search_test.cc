#include "nmt/decode/beam_search.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <span>

#include "nmt/checkpoint/quantized_weights.h"
#include "tests/nmt/decode/tiny_model.h"
#include "tests/nmt/decode/uncached_search.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

/// Next-token probabilities of one sentence from its whole prefix, by the teacher-forced pass without a cache.
NextModel uncached(const Transformer& model, Backend& backend, const std::vector<std::int32_t>& source) {
  const auto allocate = [&backend](std::size_t bytes) { return backend.allocate(bytes); };
  const auto saved = std::make_shared<Arena>(allocate);
  const auto scratch = std::make_shared<Arena>(allocate);
  const auto packed = [](std::vector<std::int32_t> ids) {
    const auto length = static_cast<std::int32_t>(ids.size());
    return PackedSequences{.ids = std::move(ids), .offsets = {0, length}};
  };
  return [=, &model, &backend](const std::vector<std::int32_t>& prefix) {
    saved->reset();
    scratch->reset();
    Context context{.backend = backend, .saved = *saved, .scratch = *scratch};
    std::vector<std::int32_t> source_ids = source, target_ids = {bos_id};
    source_ids.push_back(eos_id);
    target_ids.insert(target_ids.end(), prefix.begin(), prefix.end());
    const ConstTensor logits =
        model.teacher_forced_logits(context, upload_sequences(backend, *saved, packed(std::move(source_ids)), 0),
                                    upload_sequences(backend, *saved, packed(std::move(target_ids)), 0));
    std::vector<float> last(static_cast<std::size_t>(model.vocabulary()));
    backend.download(logits.row_slice(logits.rows() - 1, 1), last.data());
    return log_softmax(std::vector<double>(last.begin(), last.end()));
  };
}

void expect_same(const std::vector<Hypothesis>& found, const std::vector<Hypothesis>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ids, expected[i].ids) << "hypothesis " << i;
    EXPECT_NEAR(found[i].log_probability, expected[i].log_probability, 2e-3);
    EXPECT_NEAR(found[i].score, expected[i].score, 2e-4);
    EXPECT_EQ(found[i].complete, expected[i].complete);
  }
}

// Unequal lengths, an empty source, primes. The sentences finish at different steps.
const std::vector<std::size_t> lengths = {5, 1, 13, 0, 7, 2, 11, 3};

struct Case {
  ModelConfig model;
  int beam, n_best;
  LengthFormula formula;
};

class BeamSearchCase : public testing::TestWithParam<Case> {};

TEST_P(BeamSearchCase, EqualsTheUncachedSearch) {
  const Case c = GetParam();
  const auto backend = make_closed_backend();  // decoding must not access tensor memory on the host
  const TinyModel tiny(*backend, c.model);
  const auto sources = made_up_sources(lengths, 23);
  const BeamOptions options{
      .beam = c.beam, .n_best = c.n_best, .length_formula = c.formula, .max_length_factor = 1, .max_length_extra = 6};
  BeamSearch search(tiny.transformer, *backend);
  const auto found = search.search(spans_of(sources), options);
  ASSERT_EQ(found.size(), sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    SCOPED_TRACE(i);
    const NextModel model = uncached(tiny.transformer, *backend, sources[i]);
    expect_same(found[i], uncached_search(model, std::ssize(sources[i]), options));
  }
}

INSTANTIATE_TEST_SUITE_P(All, BeamSearchCase,
                         testing::Values(Case{TinyModel::config(NormPosition::pre), 1, 1, LengthFormula::power},
                                         Case{TinyModel::config(NormPosition::pre), 4, 4, LengthFormula::power},
                                         Case{TinyModel::config(NormPosition::pre), 5, 1, LengthFormula::gnmt},
                                         Case{TinyModel::config(NormPosition::post), 1, 1, LengthFormula::power},
                                         Case{TinyModel::config(NormPosition::post), 3, 2, LengthFormula::pieces},
                                         Case{TinyModel::config(NormPosition::post), 8, 8, LengthFormula::gnmt},
                                         Case{TinyModel::modern(), 1, 1, LengthFormula::power},
                                         Case{TinyModel::modern(), 5, 3, LengthFormula::power}));

NextModel combined(std::vector<std::pair<NextModel, double>> models, Combination combination) {
  return [=](const std::vector<std::int32_t>& prefix) {
    std::vector<double> sums;
    double weights = 0;
    for (const auto& [model, weight] : models) {
      const std::vector<double> next = model(prefix);
      sums.resize(next.size());
      weights += weight;
      for (std::size_t id = 0; id < next.size(); ++id) {
        sums[id] += weight * (combination == Combination::logarithms ? next[id] : std::exp(next[id]));
      }
    }
    for (double& sum : sums) sum = combination == Combination::logarithms ? sum / weights : std::log(sum / weights);
    return sums;
  };
}

class EnsembleSearch : public testing::TestWithParam<ModelConfig> {};

TEST_P(EnsembleSearch, EqualsTheUncachedSearchWithTheMean) {
  const auto backend = make_closed_backend();
  const TinyModel first(*backend, 101), second(*backend, GetParam(), 101, 8);
  const auto sources = made_up_sources({4, 0, 9}, 101);
  const std::vector<EnsembleMember> members = {{&first.transformer, 1}, {&second.transformer, 2.5}};
  for (const Combination combination : {Combination::probabilities, Combination::logarithms}) {
    for (const int beam : {1, 6, 60}) {  // 60: the whole vocabulary
      const std::int64_t longest = beam == 60 ? 2 : 6;
      const BeamOptions options{.beam = beam, .n_best = beam, .max_length_factor = 0, .max_length_extra = longest};
      BeamSearch search(members, combination, *backend);
      const auto found = search.search(spans_of(sources), options);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        SCOPED_TRACE(i);
        const NextModel mean = combined({{uncached(first.transformer, *backend, sources[i]), 1},
                                         {uncached(second.transformer, *backend, sources[i]), 2.5}},
                                        combination);
        expect_same(found[i], uncached_search(mean, std::ssize(sources[i]), options));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seconds, EnsembleSearch,
                         testing::Values(TinyModel::config(NormPosition::post), TinyModel::modern()));

TEST(BeamSearch, EnsembleOfOneModelSeveralTimesHasItsBits) {
  const auto backend = make_cpu_backend(2);
  const TinyModel tiny(*backend, 101);
  const auto sources = made_up_sources(lengths, 101);
  const BeamOptions options{.beam = 4, .n_best = 4};
  const auto expected = BeamSearch(tiny.transformer, *backend).search(spans_of(sources), options);
  for (const Combination combination : {Combination::probabilities, Combination::logarithms}) {
    for (const std::vector<double>& weights : {std::vector<double>{1, 1}, {2, 1}, {0.1, 0.1, 0.1}, {3, 0.7, 11}}) {
      std::vector<EnsembleMember> members;
      for (const double weight : weights) members.push_back({&tiny.transformer, weight});
      const auto found = BeamSearch(members, combination, *backend).search(spans_of(sources), options);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        ASSERT_EQ(found[i].size(), expected[i].size());
        for (std::size_t k = 0; k < found[i].size(); ++k) {
          EXPECT_EQ(found[i][k].ids, expected[i][k].ids);
          EXPECT_EQ(found[i][k].log_probability, expected[i][k].log_probability);
          EXPECT_EQ(found[i][k].token_scores, expected[i][k].token_scores);
        }
      }
    }
  }
}

/// The rules by their definitions: a piece is forbidden if it would complete a sequence that the prefix holds already.
NextModel ruled(NextModel model, const TokenRules& rules) {
  return [=](const std::vector<std::int32_t>& prefix) {
    std::vector<double> next = model(prefix);
    const auto length = static_cast<std::ptrdiff_t>(rules.no_repeat_ngram);
    for (std::size_t id = 0; id < next.size(); ++id) {
      std::vector<std::int32_t> longer = prefix;
      longer.push_back(static_cast<std::int32_t>(id));
      const auto occurs = [&](const auto& sequence, auto end) {
        return std::search(prefix.begin(), prefix.end(), sequence, end) != prefix.end();
      };
      if (occurs(longer.end() - 1, longer.end())) next[id] *= rules.repetition_penalty;
      const bool repeats = length > 0 && std::ssize(longer) >= length && occurs(longer.end() - length, longer.end());
      const bool early = id == eos_id && std::ssize(prefix) < rules.min_length;
      const bool completes = std::ranges::any_of(rules.suppressed_sequences, [&](const auto& sequence) {
        return longer.size() >= sequence.size() && std::equal(sequence.rbegin(), sequence.rend(), longer.rbegin());
      });
      if (repeats || early || completes || std::ranges::count(rules.suppressed, static_cast<std::int32_t>(id)) > 0) {
        next[id] = -std::numeric_limits<double>::infinity();
      }
    }
    return next;
  };
}

TEST(BeamSearch, RulesEqualTheUncachedSearchByTheirDefinitions) {
  const auto backend = make_closed_backend();
  const TinyModel tiny(*backend, 9);  // so few pieces that sequences repeat
  const auto sources = made_up_sources(lengths, 9);
  for (const TokenRules& rules : {TokenRules{.no_repeat_ngram = 1}, TokenRules{.no_repeat_ngram = 2},
                                  TokenRules{.min_length = 5, .no_repeat_ngram = 3, .repetition_penalty = 1.3},
                                  TokenRules{.min_length = 9, .suppressed = {4, 7}},
                                  TokenRules{.suppressed_sequences = {{4, 7}, {7, 7, 3}, {5}, {4, 4}, {3, 6}}},
                                  TokenRules{.min_length = 30, .suppressed = {3, 4, 5, 6, 7, 8}}}) {
    const BeamOptions options{.beam = 4, .n_best = 4, .max_length_factor = 1, .max_length_extra = 6, .rules = rules};
    const auto found = BeamSearch(tiny.transformer, *backend).search(spans_of(sources), options);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      SCOPED_TRACE(i);
      const NextModel model = ruled(uncached(tiny.transformer, *backend, sources[i]), rules);
      expect_same(found[i], uncached_search(model, std::ssize(sources[i]), options));
    }
  }
}

TEST(BeamSearch, CutsHypothesesThatRulesLeaveWithoutNextPiece) {
  const auto backend = make_cpu_backend(1);
  const TinyModel tiny(*backend, 5);
  const auto sources = made_up_sources({4}, 5);
  const TokenRules rules{.min_length = 30, .no_repeat_ngram = 1, .suppressed = {unk_id}};
  const auto found = BeamSearch(tiny.transformer, *backend).search(spans_of(sources), {.beam = 2, .rules = rules});
  EXPECT_EQ(found[0].at(0).ids.size(), 2U);  // two pieces are free, each once
  EXPECT_FALSE(found[0][0].complete);
}

TEST(BeamSearch, TokenScoresAddUp) {
  const auto backend = make_cpu_backend(1);
  const TinyModel tiny(*backend);
  const auto sources = made_up_sources(lengths, 23);
  for (const auto& n_best :
       BeamSearch(tiny.transformer, *backend).search(spans_of(sources), {.beam = 3, .n_best = 3})) {
    for (const Hypothesis& found : n_best) {
      EXPECT_EQ(found.token_scores.size(), found.ids.size() + (found.complete ? 1 : 0));
      double sum = 0;
      for (const float score : found.token_scores) sum += static_cast<double>(score);
      EXPECT_NEAR(sum, found.log_probability, 1e-6);
    }
  }
}

TEST(BeamSearch, DoesNotDependOnTheBatch) {
  const auto backend = make_cpu_backend(2);
  const TinyModel tiny(*backend);
  const auto sources = made_up_sources({9, 4, 17, 1, 6, 6, 2, 23, 5, 3, 8, 12, 7}, 23, 8);
  const BeamOptions options{.beam = 4, .n_best = 3};
  BeamSearch search(tiny.transformer, *backend);
  const auto together = search.search(spans_of(sources), options);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    SCOPED_TRACE(i);
    const std::vector<std::span<const std::int32_t>> alone = {sources[i]};
    expect_same(search.search(alone, options).at(0), together[i]);
  }
}

TEST(BeamSearch, IsDeterministic) {
  const auto backend = make_cpu_backend(2);
  const TinyModel tiny(*backend);
  const auto sources = made_up_sources(lengths, 23, 4);
  BeamSearch first(tiny.transformer, *backend), second(tiny.transformer, *backend);
  const auto once = first.search(spans_of(sources), {.beam = 3, .n_best = 3});
  const auto again = second.search(spans_of(sources), {.beam = 3, .n_best = 3});
  for (std::size_t i = 0; i < once.size(); ++i) {
    for (std::size_t k = 0; k < once[i].size(); ++k) {
      EXPECT_EQ(once[i][k].ids, again[i][k].ids);
      EXPECT_EQ(once[i][k].log_probability, again[i][k].log_probability);
    }
  }
}

/// The translations of a rounded model must be about as probable in the exact one.
void expect_probable(const std::vector<std::vector<Hypothesis>>& found, const Transformer& exact, Backend& backend,
                     const std::vector<std::vector<std::int32_t>>& sources, double tolerance) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const NextModel model = uncached(exact, backend, sources[i]);
    const Hypothesis& hypothesis = found[i].at(0);
    double log_probability = 0;
    std::vector<std::int32_t> prefix;
    for (const std::int32_t id : hypothesis.ids) {
      log_probability += model(prefix)[static_cast<std::size_t>(id)];
      prefix.push_back(id);
    }
    if (hypothesis.complete) log_probability += model(prefix)[eos_id];
    EXPECT_NEAR(hypothesis.log_probability, log_probability, tolerance * static_cast<double>(prefix.size() + 1))
        << "sentence " << i;
  }
}

TEST(BeamSearch, WorksInBf16) {
  const auto backend = make_cpu_backend(1);
  const TinyModel exact(*backend), rounded(*backend, 23, NormPosition::pre, 5, DType::bf16);
  const auto sources = made_up_sources(lengths, 23);
  const auto found = BeamSearch(rounded.transformer, *backend).search(spans_of(sources), {.beam = 3});
  expect_probable(found, exact.transformer, *backend, sources, 0.03);
}

TEST(BeamSearch, InInt8DependsNeitherOnTheBatchNorOnThreads) {
  const auto backend = make_cpu_backend(2), alone = make_cpu_backend(1);
  for (const ModelConfig& shape : {TinyModel::config(NormPosition::post), TinyModel::modern()}) {
    const TinyModel exact(*backend, shape);
    const auto quantized = quantized_copy(exact.transformer, *backend);
    const auto sources = made_up_sources({9, 4, 17, 1, 6, 6, 2, 23, 5, 3, 8, 12, 7}, 23, 8);
    const BeamOptions options{.beam = 4, .n_best = 3};
    const auto together = BeamSearch(*quantized, *backend).search(spans_of(sources), options);
    BeamSearch search(*quantized, *alone);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const std::vector<std::span<const std::int32_t>> one = {sources[i]};
      const auto found = search.search(one, options).at(0);
      ASSERT_EQ(found.size(), together[i].size());
      for (std::size_t k = 0; k < found.size(); ++k) {
        EXPECT_EQ(found[k].ids, together[i][k].ids);
        EXPECT_EQ(found[k].token_scores, together[i][k].token_scores);
      }
    }
    expect_probable(together, exact.transformer, *backend, sources, 0.1);
  }
}

class BeamSearchOnTheGpu : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, BeamSearchOnTheGpu, testing::Values("emulated", "cuda"));

TEST_P(BeamSearchOnTheGpu, EqualsTheCpu) {
  const auto gpu = make_test_backend(GetParam()), cpu = make_cpu_backend(1);
  if (gpu == nullptr) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  const TinyModel on_gpu(*gpu, 23), on_cpu(*cpu, 23);
  const auto sources = made_up_sources(lengths, 23);
  const BeamOptions options{.beam = 4, .n_best = 4, .max_length_factor = 1, .max_length_extra = 6};
  const auto found = BeamSearch(on_gpu.transformer, *gpu).search(spans_of(sources), options);
  const auto expected = BeamSearch(on_cpu.transformer, *cpu).search(spans_of(sources), options);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) expect_same(found[i], expected[i]);
}

TEST(BeamSearch, PacksEachWeightOnceAndReportsItsBytes) {
  const auto backend = make_cpu_backend(1);
  const TinyModel tiny(*backend);
  const auto sources = made_up_sources(lengths, 23);
  BeamSearch search(tiny.transformer, *backend);
  EXPECT_EQ(search.packed_bytes(), 0U);
  search.search(spans_of(sources), {.beam = 3});
  const std::size_t once = search.packed_bytes();
  search.search(spans_of(sources), {.beam = 4});
  EXPECT_EQ(search.packed_bytes(), once);
  std::size_t matrices = 0;  // bytes of all matmul weights, including the embedding as output weight
  for (const Parameter& parameter : tiny.transformer.parameters().all()) {
    if (parameter.shape.rank() == 2) matrices += parameter.compute.bytes();
  }
  const bool packs = backend->pack(tiny.transformer.parameters().all().front().compute) != nullptr;
  EXPECT_EQ(once >= matrices, packs) << once << " bytes packed of " << matrices;
}

/// Like TinyModel, with matrices of several pages of memory.
std::unique_ptr<Transformer> model_of_pages(Backend& backend) {
  ModelConfig config = TinyModel::config(NormPosition::pre);
  config.width = 64, config.inner = 128;
  auto model = std::make_unique<Transformer>(config, 200, 0, backend, DType::f32);
  for (const Parameter& parameter : model->parameters().all()) {
    backend.upload(initial_values(parameter, 5).data(), parameter.master);
  }
  return model;
}

TEST(BeamSearch, FindsTheSameInAModelThatItReleases) {
  const auto backend = make_cpu_backend(1);
  const auto kept = model_of_pages(*backend), released = model_of_pages(*backend);
  const auto sources = made_up_sources(lengths, 200);
  const BeamOptions options{.beam = 3, .n_best = 3};
  const auto expected = BeamSearch(*kept, *backend).search(spans_of(sources), options);
  BeamSearch search(*released, *backend, PackedWeights::Originals::released);
  for (int pass = 0; pass < 2; ++pass) {
    const auto found = search.search(spans_of(sources), options);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      for (std::size_t k = 0; k < expected[i].size(); ++k) {
        EXPECT_EQ(found[i][k].ids, expected[i][k].ids);
        EXPECT_EQ(found[i][k].log_probability, expected[i][k].log_probability);
      }
    }
  }
  const bool packs = search.packed_bytes() > 0;
  for (const Parameter& parameter : released->parameters().all()) {
    const std::span<const float> values(parameter.master.as<float>(),
                                        static_cast<std::size_t>(parameter.shape.elements()));
    const bool is_matrix = parameter.name.ends_with(".weight");
    EXPECT_EQ(std::ranges::count(values, 0.0F) >= 1024, packs && is_matrix) << parameter.name;
  }
}

TEST(PackedWeights, RefuseAReleasedWeightInAnotherForm) {
  const auto backend = make_cpu_backend(1);
  const auto model = model_of_pages(*backend);
  PackedWeights weights(*backend, PackedWeights::Originals::released);
  const Parameter& matrix = *std::ranges::find_if(
      model->parameters().all(), [](const Parameter& parameter) { return parameter.name.ends_with(".weight"); });
  const PackedWeight* whole = weights.of(matrix.compute, false);
  if (whole == nullptr) GTEST_SKIP() << "matmuls of this processor read weights as they are";
  EXPECT_EQ(weights.of(matrix.compute, false), whole);
  EXPECT_THROW(weights.of(matrix.compute.row_slice(8, 8), false), Failure);
}

TEST(BeamSearch, NoSourcesGiveNoResults) {
  const auto backend = make_cpu_backend(1);
  const TinyModel tiny(*backend);
  EXPECT_TRUE(BeamSearch(tiny.transformer, *backend).search({}, {}).empty());
}

TEST(BeamSearch, BeamMayExceedTheVocabulary) {
  const auto backend = make_cpu_backend(1);
  const TinyModel tiny(*backend, 6);
  const auto sources = made_up_sources({2, 3}, 6);
  const BeamOptions options{.beam = 12, .n_best = 12, .max_length_extra = 3};
  const auto found = BeamSearch(tiny.transformer, *backend).search(spans_of(sources), options);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const NextModel model = uncached(tiny.transformer, *backend, sources[i]);
    expect_same(found[i], uncached_search(model, std::ssize(sources[i]), options));
  }
}

TEST(BeamSearch, RefusesBadOptions) {
  const auto backend = make_cpu_backend(1);
  const TinyModel tiny(*backend);
  EXPECT_THROW(BeamSearch(tiny.transformer, *backend).search({}, {.beam = 0}), UsageFailure);
}

}  // namespace
}  // namespace babelring

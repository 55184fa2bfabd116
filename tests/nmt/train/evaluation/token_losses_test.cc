#include "nmt/train/evaluation/token_losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/failure.h"
#include "nmt/data/sequence_batches.h"
#include "nmt/model/transformer.h"
#include "tests/nmt/train/gssm_training.h"

namespace babelring {
namespace {

TEST(TokenLosses, AddUpToTheLossOfTheBatch) {
  const auto backend = make_cpu_backend(1);
  ActivationArenas arenas(*backend);
  const double smoothing = 0.1;
  const auto model = make_model(small_gssm_config().model, 8, 0.1f, parameter_memory_of(*backend), DType::f32);
  model->initialize(*backend, 5);
  const PackedBatch batch = pack_sequences({0, 3}, 9, [](std::int64_t sequence, std::span<std::int32_t> tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>((3 * static_cast<std::size_t>(sequence) + i * i) % 8);
    }
  });
  const TokenLosses losses = token_losses(require_language_model(*model), batch, *backend, arenas);
  Context context = arenas.begin(DType::f32);
  const LossSums sums = model->evaluate(context, DeviceBatch(*backend, context.saved, batch));
  ASSERT_EQ(losses.nll.size(), 24U);
  const double nll = std::accumulate(losses.nll.begin(), losses.nll.end(), 0.0);
  const double spread = std::accumulate(losses.spread.begin(), losses.spread.end(), 0.0);
  EXPECT_NEAR(nll, sums.nll, 1e-4);
  EXPECT_NEAR((1 - smoothing) * nll + smoothing * spread, sums.loss, 1e-3);
  EXPECT_EQ(static_cast<double>(losses.correct), sums.correct);
}

TEST(TokenLosses, NeedALanguageModel) {
  const auto backend = make_cpu_backend(1);
  const Transformer translator(small_config().model, 8, 0, *backend, DType::f32);
  EXPECT_THAT([&] { require_language_model(translator); },
              testing::ThrowsMessage<UsageFailure>("predicting sequences needs a language model, found a Transformer"));
}

}  // namespace
}  // namespace babelring
